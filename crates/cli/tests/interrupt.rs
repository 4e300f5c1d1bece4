//! Ctrl-C: what was said stays said, and the exit code tells.
#![cfg(unix)]

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// A reply of nearly even odds over all tokens, which goes on for thousands of them.
fn babble(more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kinglet"))
        .args(["run", "--raw", "--temp", "100", "--seed", "3", "Once upon a time"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built")
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("there is a kill");
    assert!(sent.success());
}

#[test]
fn an_interrupted_reply_ends_its_line_and_exits_with_130() {
    let mut child = babble(&[]);
    let mut out = child.stdout.take().expect("piped");
    let mut said = vec![0];
    out.read_exact(&mut said).expect("it has begun");
    interrupt(&child);
    out.read_to_end(&mut said).expect("it ends");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(said.ends_with(b"\n"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn an_interrupted_reply_in_json_is_whole_json() {
    let mut child = babble(&["--json", "--verbose"]);
    // The first note is written when the model is loaded, just before the reply begins.
    child.stderr.as_mut().expect("piped").read_exact(&mut [0]).expect("it notes");
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["finish_reason"], "cancelled");
    assert!(json["content"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn an_interrupted_conversion_leaves_all_or_nothing() {
    let folder = std::env::temp_dir().join(format!("kinglet-interrupt-{}", std::process::id()));
    for wait in [30, 80, 150, 250] {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("writable");
        let mut child = Command::new(env!("CARGO_BIN_EXE_kinglet"))
            .args(["convert", concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo"), "--recipe", "float", "-o"])
            .arg(folder.join("demo.litertlm"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program was built");
        std::thread::sleep(std::time::Duration::from_millis(wait));
        for _ in 0..3 {
            // It may have ended by now, which is as good.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status();
        }
        let status = child.wait().expect("it ends");
        let names: Vec<_> = std::fs::read_dir(&folder).expect("there").flatten().map(|e| e.file_name()).collect();
        // Before the conversion begins, the signal ends the program itself, and it has no exit code.
        let expected = if status.code() == Some(0) { 2 } else { 0 };
        assert_eq!(names.len(), expected, "{status} after {wait} ms: {names:?}");
    }
    std::fs::remove_dir_all(folder).expect("ours");
}
