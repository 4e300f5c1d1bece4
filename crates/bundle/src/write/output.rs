//! Files that are there whole or not at all: bytes go in beside the target, and on request the target comes out.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::sink::{Full, is_full};
use crate::Result;
use crate::error::{Error, Inner};

/// A file in the making. It lies beside its target under a hidden name until [`commit`](Output::commit), and is removed
/// when it is dropped before. What a program that was killed left there is removed by the next one with the same target.
#[derive(Debug)]
pub struct Output {
    target: PathBuf,
    temporary: PathBuf,
    replaces: bool,
    file: BufWriter<Tracked<File>>,
    is_done: bool,
}

/// Bytes that are handed to the system at once.
const BUFFER: usize = 1 << 20;

impl Output {
    /// Begins a file that is to be called `target`, in a directory that exists.
    ///
    /// # Errors
    /// There is a `target` and it is not to be replaced ([`Exists`](crate::ErrorKind::Exists)), or it is no regular
    /// file; the directory is not there or cannot be written.
    pub fn create(target: &Path, replace: bool) -> Result<Output> {
        let fail = |inner| Error { file: target.display().to_string(), inner };
        check_target(target, replace).map_err(fail)?;
        let (temporary, file) = create_beside(target).map_err(|error| fail(Inner::Write(error)))?;
        let file = BufWriter::with_capacity(BUFFER, Tracked { to: file, written: 0, needed: None });
        Ok(Output { target: target.to_owned(), temporary, replaces: replace, file, is_done: false })
    }

    /// Says how many bytes will come in all, for the message where they find no room, and gives the file that length:
    /// what has not come yet reads as zeros.
    ///
    /// # Errors
    /// The file cannot be so long.
    pub fn expect(&mut self, needed: u64) -> Result<()> {
        self.file.get_mut().needed = Some(needed);
        let lengthened = self.file.get_ref().to.set_len(needed);
        lengthened.map_err(|error| self.error(self.file.get_ref().tell(error)))
    }

    /// Where the bytes are until [`commit`](Output::commit); those that were flushed can be read there.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// What the file will be called.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// An error of writing, told with the target's name.
    pub fn error(&self, error: io::Error) -> Error {
        let file = self.target.display().to_string();
        let full = error.get_ref().and_then(|inner| inner.downcast_ref::<Full>()).copied();
        Error { file, inner: full.map_or(Inner::Write(error), Inner::Full) }
    }

    /// Brings all bytes to the disk and gives the file its name.
    ///
    /// # Errors
    /// The disk is full ([`Full`](crate::ErrorKind::Full)) or fails; meanwhile somebody made a file of that name, and it
    /// is not to be replaced. Nothing is left behind then.
    pub fn commit(mut self) -> Result<()> {
        self.finish().map_err(|error| self.error(error))?;
        let fail = |inner| Error { file: self.target.display().to_string(), inner };
        check_target(&self.target, self.replaces).map_err(fail)?;
        let named = if self.replaces { fs::rename(&self.temporary, &self.target) } else { self.name_if_free() };
        match named {
            Ok(()) => self.is_done = true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(fail(Inner::Exists)),
            Err(error) => return Err(fail(Inner::Write(error))),
        }
        // The name is a matter of the directory; some systems cannot bring one to the disk, and then it is theirs.
        let _ = File::open(folder(&self.target)).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let tracked = self.file.get_ref();
        tracked.to.sync_all().map_err(|error| tracked.tell(error))
    }

    /// A link fails where the name is taken, a renaming would replace.
    fn name_if_free(&self) -> io::Result<()> {
        match fs::hard_link(&self.temporary, &self.target) {
            // The second name is removed last: an error leaves a file that the next program removes.
            Ok(()) => fs::remove_file(&self.temporary).or(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Not every file system has links.
            Err(_) => fs::rename(&self.temporary, &self.target),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_done {
            // There is nobody to tell; the next program with this target tries again.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn check_target(target: &Path, replace: bool) -> std::result::Result<(), Inner> {
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Inner::Write(error)),
        Ok(_) if !replace => Err(Inner::Exists),
        Ok(facts) if facts.is_file() => Ok(()),
        // A link is replaced, not what it leads to; but one that leads to a device is there for that, such as /dev/stdout.
        Ok(facts) if facts.is_symlink() => match fs::metadata(target) {
            Ok(facts) if !facts.is_file() => Err(Inner::Special),
            _ => Ok(()),
        },
        Ok(_) => Err(Inner::Special),
    }
}

fn folder(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

const ENDING: &str = ".partial";
/// Names that are tried before giving up.
const TRIES: u32 = 64;

fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let Some(name) = target.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path ends in no file name"));
    };
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    remove_abandoned(folder(target), &prefix);
    for attempt in 0..TRIES {
        let mut temporary = prefix.clone();
        temporary.push(format!("{}-{attempt}{ENDING}", std::process::id()));
        let path = folder(target).join(temporary);
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        // Who looks for abandoned files may have been faster; without locks nobody looks.
        let is_ours = !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && fs::symlink_metadata(&path).is_ok();
        if is_ours {
            return Ok((path, file));
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all temporary names are taken"))
}

/// Removes what programs left that were killed: the files of our form that nobody holds.
fn remove_abandoned(folder: &Path, prefix: &OsString) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let (name, prefix) = (name.as_encoded_bytes(), prefix.as_encoded_bytes());
        let is_ours = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(ENDING.as_bytes()));
        let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(|b| b.is_ascii_digit() || *b == b'-');
        if !is_ours.is_some_and(is_number) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() {
            // If it cannot be removed, the next program tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Counts what found room, and says so where the next bytes do not.
#[derive(Debug)]
struct Tracked<W> {
    to: W,
    written: u64,
    needed: Option<u64>,
}

impl<W> Tracked<W> {
    fn tell(&self, error: io::Error) -> io::Error {
        if is_full(&error) {
            let full = Full { written: self.written, needed: self.needed };
            return io::Error::new(error.kind(), full);
        }
        error
    }
}

impl<W: Write> Write for Tracked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes).map_err(|error| self.tell(error))?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
