//! Conversations on disk: messages go in, a JSON file comes out, and back; a file is never left half-written.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use kinglet_text::Message;

use crate::failure::{Class, Failure};
use crate::terminal;

/// Longest file that is read, in bytes.
const LIMIT: u64 = 16 << 20;

/// Writes a file beside `path` and then renames it.
pub(crate) fn save(path: &Path, messages: &[Message], replace: bool) -> anyhow::Result<()> {
    let shown = || terminal::name(&path.display().to_string()).into_owned();
    if !replace && std::fs::symlink_metadata(path).is_ok() {
        let failure = Failure::new(Class::NoRoom, format!("{}: there is such a file already", shown()));
        return Err(failure.hint("give another name, or /save! to replace it").into());
    }
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
    let mut text = String::new();
    // What is no regular file tells no length.
    std::fs::File::open(path).and_then(|file| file.take(LIMIT).read_to_string(&mut text)).with_context(shown)?;
    let json = serde_json::from_str(&text)
        .map_err(|error| Failure::new(Class::Damaged, format!("{}: not JSON: {error}", shown())))?;
    let messages = Message::list_from_json(&json).with_context(shown)?;
    check_roles(&messages).map_err(|problem| Failure::new(Class::Damaged, format!("{}: {problem}", shown())))?;
    Ok(messages)
}

/// A conversation that can go on: instructions at most at its beginning, then questions and answers in turn.
fn check_roles(messages: &[Message]) -> Result<(), String> {
    let mut last = "assistant";
    for (index, message) in messages.iter().enumerate() {
        let expected = match (index, message.role.as_str()) {
            (0, "system") | (_, "tool") => continue,
            (_, "user") if last == "assistant" => "user",
            (_, "assistant") if last == "user" => "assistant",
            (_, found) => {
                let expected = if last == "user" { "assistant" } else { "user" };
                return Err(format!("message {index}: expected role `{expected}`, found `{}`", found.escape_debug()));
            }
        };
        last = expected;
    }
    if last == "user" {
        return Err("the last message: expected role `assistant`, found `user`".to_owned());
    }
    Ok(())
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
        save(&file, &messages, false).expect("writable");
        let error = save(&file, &messages, false).expect_err("there already");
        assert_eq!(crate::failure::classify(&error).0, Class::NoRoom);
        save(&file, &messages, true).expect("it is replaced");
        assert_eq!(load(&file).expect("just written"), messages);
        assert_eq!(std::fs::read_dir(&directory).expect("there").count(), 1);
        std::fs::remove_dir_all(directory).expect("ours");
    }

    #[test]
    fn only_a_conversation_that_can_go_on_is_loaded() {
        let talk = |roles: &[&str]| roles.iter().map(|role| Message::new(*role, "x")).collect::<Vec<_>>();
        for good in
            [&[][..], &["system"], &["user", "assistant"], &["system", "user", "assistant", "user", "assistant"]]
        {
            assert_eq!(check_roles(&talk(good)), Ok(()), "{good:?}");
        }
        let bad = [
            (&["user"][..], "last"),
            (&["assistant"], "message 0: expected role `user`"),
            (&["user", "user"], "message 1: expected role `assistant`, found `user`"),
            (&["user", "assistant", "system"], "message 2: expected role `user`, found `system`"),
            (&["user", "wizard"], "found `wizard`"),
        ];
        for (roles, expected) in bad {
            let problem = check_roles(&talk(roles)).expect_err("refused");
            assert!(problem.contains(expected), "{problem}");
        }
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
            (save(&absent, &[], false).expect_err("no directory"), Class::NotFound, "absent"),
        ];
        for (error, class, name) in errors {
            assert_eq!(crate::failure::classify(&error).0, class, "{error:#}");
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
        std::fs::remove_dir_all(directory).expect("ours");
    }
}
