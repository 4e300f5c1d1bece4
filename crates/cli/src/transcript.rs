//! Conversations on disk: messages go in, a JSON file comes out, and back; a file is never left half-written.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kinglet_text::Message;

use crate::failure::{Class, Failure};
use crate::terminal;

/// Longest file that is read, in bytes.
const LIMIT: u64 = 64 << 20;

/// Writes a file beside `path` and then renames it.
pub(crate) fn save(path: &Path, messages: &[Message]) -> anyhow::Result<()> {
    let shown = || terminal::name(&path.display().to_string()).into_owned();
    let beside = beside(path).with_context(shown)?;
    let written = write(&beside, messages).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The error that matters is the one at hand.
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(shown)
}

fn write(path: &Path, messages: &[Message]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    serde_json::to_writer_pretty(&mut file, messages)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn beside(path: &Path) -> std::io::Result<PathBuf> {
    let name = path.file_name().ok_or(std::io::ErrorKind::IsADirectory)?.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.{}.tmp", std::process::id())))
}

/// Reads a file of messages.
pub(crate) fn load(path: &Path) -> anyhow::Result<Vec<Message>> {
    let shown = || terminal::name(&path.display().to_string()).into_owned();
    let size = std::fs::metadata(path).with_context(shown)?.len();
    if size > LIMIT {
        return Err(Failure::new(
            Class::Unsupported,
            format!("{} has {size} bytes, at most {LIMIT} are read", shown()),
        )
        .into());
    }
    let text = std::fs::read_to_string(path).with_context(shown)?;
    let json = serde_json::from_str(&text)
        .map_err(|error| Failure::new(Class::Damaged, format!("{}: not JSON: {error}", shown())))?;
    Message::list_from_json(&json).with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("kinglet-transcript-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("writable");
        path
    }

    #[test]
    fn a_saved_conversation_is_loaded_as_it_was_and_nothing_else_is_left() {
        let directory = directory("both");
        let file = directory.join("talk.json");
        let messages = vec![Message::new("user", "é\n\"x\""), Message::new("assistant", "")];
        save(&file, &messages).expect("writable");
        save(&file, &messages).expect("it is replaced");
        assert_eq!(load(&file).expect("just written"), messages);
        assert_eq!(std::fs::read_dir(&directory).expect("there").count(), 1);
        std::fs::remove_dir_all(directory).expect("ours");
    }

    #[test]
    fn a_file_that_cannot_be_read_or_written_is_named() {
        let directory = directory("bad");
        let bad = directory.join("bad.json");
        std::fs::write(&bad, "{").expect("writable");
        let odd = directory.join("odd.json");
        std::fs::write(&odd, "[{}]").expect("writable");
        let absent = directory.join("absent/talk.json");
        let errors = [
            (load(&bad).expect_err("not JSON"), Class::Damaged, "bad.json"),
            (load(&odd).expect_err("no role"), Class::Damaged, "odd.json"),
            (load(&absent).expect_err("not there"), Class::NotFound, "absent"),
            (save(&absent, &[]).expect_err("no directory"), Class::NotFound, "absent"),
        ];
        for (error, class, name) in errors {
            assert_eq!(crate::failure::classify(&error).0, class, "{error:#}");
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
        std::fs::remove_dir_all(directory).expect("ours");
    }
}
