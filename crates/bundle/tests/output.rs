//! Files that are there whole or not at all, whatever stands under their name and whoever is stopped on the way.

#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use kinglet_bundle::ErrorKind;
use kinglet_bundle::write::Output;

/// A folder of a test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kinglet-output-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("writable");
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn count(&self) -> usize {
        fs::read_dir(&self.0).expect("there").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refused(folder: &Folder, name: &str, replace: bool) -> ErrorKind {
    let error = Output::create(&folder.at(name), replace).expect_err(name);
    assert!(error.to_string().starts_with(&folder.at(name).display().to_string()), "{error}");
    error.kind()
}

#[test]
fn a_file_gets_its_name_when_all_is_there() {
    let folder = Folder::new("whole");
    let mut output = Output::create(&folder.at("a"), false).expect("writable");
    output.expect(10).expect("room");
    output.write_all(b"0123456789").expect("room");
    assert!(!folder.at("a").exists());
    output.flush().expect("room");
    assert_eq!(fs::read(output.temporary()).expect("flushed"), b"0123456789");
    output.commit().expect("named");
    assert_eq!(fs::read(folder.at("a")).expect("named"), b"0123456789");
    assert_eq!(folder.count(), 1);
}

#[test]
fn one_that_is_given_up_leaves_nothing() {
    let folder = Folder::new("dropped");
    let mut output = Output::create(&folder.at("a"), false).expect("writable");
    output.write_all(&[7; 3_000_000]).expect("room");
    drop(output);
    assert_eq!(folder.count(), 0);
}

#[test]
fn what_is_there_stays_unless_it_is_to_be_replaced() {
    let folder = Folder::new("exists");
    fs::write(folder.at("a"), "old").expect("writable");
    assert_eq!(refused(&folder, "a", false), ErrorKind::Exists);
    let mut output = Output::create(&folder.at("a"), true).expect("writable");
    output.write_all(b"new").expect("room");
    assert_eq!(fs::read(folder.at("a")).expect("there"), b"old", "until it is whole");
    output.commit().expect("named");
    assert_eq!(fs::read(folder.at("a")).expect("there"), b"new");
}

#[test]
fn a_name_that_was_taken_meanwhile_is_not_replaced() {
    let folder = Folder::new("raced");
    let mut output = Output::create(&folder.at("a"), false).expect("writable");
    output.write_all(b"new").expect("room");
    fs::write(folder.at("a"), "another's").expect("writable");
    assert_eq!(output.commit().expect_err("taken").kind(), ErrorKind::Exists);
    assert_eq!(fs::read(folder.at("a")).expect("there"), b"another's");
    assert_eq!(folder.count(), 1);
}

#[test]
fn folders_devices_and_links_to_them_are_never_replaced() {
    let folder = Folder::new("special");
    fs::create_dir(folder.at("folder")).expect("writable");
    std::os::unix::fs::symlink("/dev/null", folder.at("device")).expect("writable");
    std::os::unix::fs::symlink(folder.at("folder"), folder.at("link")).expect("writable");
    for name in ["folder", "device", "link"] {
        assert_eq!(refused(&folder, name, true), ErrorKind::Io, "{name}");
        assert_eq!(refused(&folder, name, false), ErrorKind::Exists, "{name}");
    }
    assert!(fs::symlink_metadata(folder.at("device")).expect("there").is_symlink());
    assert_eq!(refused(&folder, "absent/a", true), ErrorKind::Io);
}

#[test]
fn a_link_is_replaced_and_not_what_it_leads_to() {
    let folder = Folder::new("link");
    fs::write(folder.at("a"), "old").expect("writable");
    std::os::unix::fs::symlink("a", folder.at("link")).expect("writable");
    let mut output = Output::create(&folder.at("link"), true).expect("writable");
    output.write_all(b"new").expect("room");
    output.commit().expect("named");
    assert_eq!(fs::read(folder.at("a")).expect("there"), b"old");
    assert_eq!(fs::read(folder.at("link")).expect("there"), b"new");
}

#[test]
fn what_a_killed_program_left_is_removed_and_others_files_are_not() {
    let folder = Folder::new("abandoned");
    let kept = [".a.1-x.partial", ".ab.1-0.partial", ".a.partial", "a.1-0.partial", ".a.1-0.part"];
    for name in kept.iter().chain(&[".a.1-0.partial", ".a.99999-3.partial"]) {
        fs::write(folder.at(name), "x").expect("writable");
    }
    let held = Output::create(&folder.at("a"), false).expect("writable");
    let other = Output::create(&folder.at("a"), false).expect("another program's, at the same time");
    assert_eq!(folder.count(), kept.len() + 2);
    drop(held);
    drop(other);
    assert_eq!(folder.count(), kept.len());
}
