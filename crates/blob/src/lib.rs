//! A read-only byte range: a file path or bytes go in, a cheaply cloned slice of them comes out; it never writes,
//! never copies a mapped file and never interprets what it holds.
//!
//! A [`Blob`] is an owner plus a range, so a tensor can be handed around as a slice of its file without a lifetime.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Alignment of memory owned by a [`Blob`], in bytes: enough for every vector load that a kernel does.
pub const ALIGNMENT: usize = 64;

/// Why a file could not be mapped.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file asked for.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: std::io::Error,
}

#[derive(Debug)]
enum Owner {
    Mapped(memmap2::Mmap),
    Static(&'static [u8]),
    Owned(AlignedBytes),
}

/// A range of read-only bytes that keeps its owner alive.
///
/// ```
/// let blob = kinglet_blob::Blob::from_vec(vec![1, 2, 3, 4]);
/// let tail = blob.slice(2..4).expect("in range");
/// assert_eq!(&*tail, [3, 4]);
/// ```
#[derive(Clone, Debug)]
pub struct Blob {
    owner: Arc<Owner>,
    range: Range<usize>,
}

impl Blob {
    /// Maps a whole file. Nothing is read until a byte is touched.
    ///
    /// The file must not be changed or truncated while it is mapped: a program that rewrites it in place makes later
    /// reads undefined, as with every mapped file. Replacing it by renaming another over it is harmless.
    pub fn map(path: &Path) -> Result<Blob, Error> {
        let fail = |source| Error { path: path.to_owned(), source };
        // Looked at before it is opened: opening a pipe waits for whoever writes into it.
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            return Err(fail(std::io::Error::other("not a regular file")));
        }
        let file = File::open(path).map_err(fail)?;
        let facts = file.metadata().map_err(fail)?;
        if !facts.is_file() {
            return Err(fail(std::io::Error::other("not a regular file")));
        }
        if facts.len() == 0 {
            return Ok(Blob::from_static(&[]));
        }
        // SAFETY: the mapping is read-only and private to this process; that nobody truncates the file meanwhile is
        // the documented condition of this function.
        let map = unsafe { memmap2::MmapOptions::new().map(&file) }.map_err(fail)?;
        Ok(Blob::whole(Owner::Mapped(map)))
    }

    /// Bytes that live as long as the program, such as an embedded model.
    pub fn from_static(bytes: &'static [u8]) -> Blob {
        Blob::whole(Owner::Static(bytes))
    }

    /// Takes over bytes, copied once into [`ALIGNMENT`]-aligned memory.
    pub fn from_vec(bytes: Vec<u8>) -> Blob {
        let mut aligned = AlignedBytes::zeroed(bytes.len());
        aligned.copy_from_slice(&bytes);
        aligned.into()
    }

    fn whole(owner: Owner) -> Blob {
        let blob = Blob { owner: Arc::new(owner), range: 0..0 };
        let len = blob.owner_bytes().len();
        Blob { range: 0..len, ..blob }
    }

    /// The bytes `range` of this blob, sharing its owner; `None` when they are not all inside.
    pub fn slice(&self, range: Range<usize>) -> Option<Blob> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start + range.start;
        Some(Blob { owner: Arc::clone(&self.owner), range: start..start + range.len() })
    }

    /// Whether the bytes are a mapped file (or part of the program), and so cost no memory of their own.
    pub fn is_mapped(&self) -> bool {
        !matches!(*self.owner, Owner::Owned(_))
    }

    /// Lets the operating system take back the memory that these bytes of a mapped file are in. They can be read as
    /// before, and come from its cache or the file again: who reads a file once, front to back, holds little of it so.
    /// Bytes that are not of a mapped file stay as they are.
    pub fn release(&self) {
        #[cfg(unix)]
        if let Owner::Mapped(map) = &*self.owner {
            let dropped = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: `Blob::map` made this mapping of a file, private and never written to, so a page that is dropped
            // is filled with the same bytes at the next read; `range` lies inside it, as `slice` checked.
            let advised = unsafe { map.unchecked_advise_range(dropped, self.range.start, self.range.len()) };
            // A system that refuses keeps the pages: it was only advice.
            let _ = advised;
        }
    }

    fn owner_bytes(&self) -> &[u8] {
        match &*self.owner {
            Owner::Mapped(map) => map,
            Owner::Static(bytes) => bytes,
            Owner::Owned(bytes) => bytes,
        }
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owner_bytes()[self.range.clone()]
    }
}

impl From<AlignedBytes> for Blob {
    fn from(bytes: AlignedBytes) -> Blob {
        Blob::whole(Owner::Owned(bytes))
    }
}

/// Zero-initialised bytes at an address divisible by [`ALIGNMENT`], to be filled and turned into a [`Blob`].
#[derive(Debug)]
pub struct AlignedBytes {
    blocks: Vec<Block>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block([u8; ALIGNMENT]);

impl AlignedBytes {
    /// `len` zero bytes. Large ones come from the operating system already zeroed and untouched.
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes { blocks: vec![Block([0; ALIGNMENT]); len.div_ceil(ALIGNMENT)], len }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Block` is plain bytes without padding, and `zeroed` made at least `len` of them.
        unsafe { std::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.len) }
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_outside_is_refused() {
        let blob = Blob::from_vec((0..100).collect());
        assert!(blob.slice(0..101).is_none());
        assert!(blob.slice(101..101).is_none());
        let inner = blob.slice(10..20).expect("inside");
        assert_eq!(&*inner.slice(2..4).expect("inside"), [12, 13]);
        assert!(inner.slice(0..11).is_none(), "a slice of a slice stays inside it");
    }

    #[test]
    fn bytes_that_were_released_read_the_same() {
        let path = std::env::temp_dir().join(format!("kinglet-blob-release-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).expect("writable");
        let blob = Blob::map(&path).expect("a file");
        for range in [0..0, 0..100_000, 4095..4097, 99_999..100_000] {
            assert!(*blob == bytes[..]);
            blob.slice(range).expect("inside").release();
        }
        assert!(*blob == bytes[..]);
        let owned = Blob::from_vec(vec![7; 9000]);
        owned.release();
        assert_eq!(*owned, [7; 9000]);
        std::fs::remove_file(path).expect("ours");
    }

    #[test]
    fn owned_bytes_are_aligned_and_not_counted_as_mapped() {
        let blob = Blob::from_vec(vec![7; 130]);
        assert_eq!(blob.as_ptr() as usize % ALIGNMENT, 0);
        assert!(!blob.is_mapped());
        assert!(Blob::from_static(b"x").is_mapped());
    }

    #[test]
    fn a_directory_and_a_missing_file_are_errors_that_name_the_path() {
        for path in [std::env::temp_dir(), PathBuf::from("no/such/file")] {
            let error = Blob::map(&path).expect_err("not a file");
            assert!(error.to_string().contains(path.to_str().expect("utf-8")));
        }
    }
}
