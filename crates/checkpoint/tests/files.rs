//! What stands in a file's place and is none, and what cannot be read: errors, never a wait and never an absence.

mod support;

use kinglet_checkpoint::{Checkpoint, ErrorKind};
use support::{EMBEDDING, INDEX, Scratch, shard};

const NAMES: [&str; 4] = ["config.json", INDEX, "model.safetensors", "tokenizer.json"];

/// Puts something in the place of each file and opens the checkpoint, then asks for the tokenizer.
fn errors(put: impl Fn(&std::path::Path)) -> Vec<String> {
    let open = |name: &str| {
        let scratch = Scratch::new().write("model.safetensors", shard(&[(EMBEDDING, &[1])]));
        let path = scratch.0.join(name);
        let _ = std::fs::remove_file(&path);
        put(&path);
        let error = scratch.open().and_then(|checkpoint| checkpoint.file("tokenizer.json")).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let (text, place) = (error.to_string(), format!("{}: {name}: ", scratch.0.display()));
        text.strip_prefix(&place).unwrap_or_else(|| panic!("{text} names {place}")).to_owned()
    };
    NAMES.into_iter().map(open).collect()
}

#[test]
fn a_directory_in_place_of_a_file_is_an_error() {
    let errors = errors(|path| std::fs::create_dir(path).expect("made"));
    assert_eq!(errors, ["not a regular file"; 4]);
}

#[cfg(unix)]
#[test]
fn links_that_lead_nowhere_are_errors_and_others_are_followed() {
    use std::os::unix::fs::symlink;
    let dangling = errors(|path| symlink("gone", path).expect("linked"));
    assert_eq!(dangling, ["a link to a file that is not there"; 4]);
    for error in errors(|path| symlink(path, path).expect("linked")) {
        assert!(error.contains("symbolic link"), "{error}");
    }
    let scratch = Scratch::new().write("blob", shard(&[(EMBEDDING, &[1])]));
    symlink("blob", scratch.0.join("model.safetensors")).expect("linked");
    assert!(scratch.open().is_ok(), "caches of downloads consist of links");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_is_an_error_and_is_not_waited_for() {
    let pipe = |path: &std::path::Path| {
        let status = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
        assert!(status.success());
    };
    assert_eq!(errors(pipe), ["not a regular file"; 4]);
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_not_an_absent_one() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new().write("model.safetensors", shard(&[(EMBEDDING, &[1])])).write("tokenizer.json", "{}");
    let path = scratch.0.join("tokenizer.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).expect("set");
    if std::fs::File::open(&path).is_ok() {
        println!("SKIPPED: this user may read every file");
        return;
    }
    let error = scratch.open().expect("sound").file("tokenizer.json").expect_err("not allowed");
    assert!(error.to_string().contains("tokenizer.json: Permission denied"), "{error}");
}

#[test]
fn what_is_no_checkpoint_directory_is_told_with_what_to_give() {
    let empty = Scratch::empty();
    assert_eq!(empty.error().kind(), ErrorKind::NotFound);
    assert!(empty.error().hint().expect("known").contains("config.json"));
    let absent = Checkpoint::open(&empty.0.join("absent")).expect_err("not there");
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    let file = Checkpoint::open(&empty.0.join("config.json")).expect_err("not there");
    assert!(file.to_string().contains("config.json: no such file"), "{file}");
}
