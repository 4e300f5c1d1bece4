//! Every option of `kinglet run` has an effect: each is named here with a run that it changes, and `--help` must not list
//! one that is not.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn kinglet(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kinglet"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads its input");
    child.wait_with_output().expect("it ends")
}

fn run(arguments: &[&str]) -> (String, String) {
    let output = kinglet(&[&["run"], arguments].concat(), "");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn reply(arguments: &[&str]) -> String {
    run(arguments).0
}

/// A value of the JSON that `--json` prints, by its path.
fn value(arguments: &[&str], path: &str) -> serde_json::Value {
    let json: serde_json::Value = serde_json::from_str(&reply(&[arguments, &["--json"]].concat())).expect("JSON");
    json.pointer(path).unwrap_or_else(|| panic!("{path} in {json}")).clone()
}

const QUESTION: &str = "What is the capital of France?";
const SUM: &str = "What is 47 plus 38?";
/// Nearly even odds, so that anything but the likeliest token is chosen nearly always.
const WILD: [&str; 6] = ["--temperature", "50", "--seed", "1", "-n", "12"];

fn wild(more: &[&str]) -> String {
    reply(&[&[QUESTION], &WILD[..], more].concat())
}

fn file(name: &str, text: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("flags-{name}"));
    std::fs::write(&path, text).expect("writable");
    path.display().to_string()
}

/// Every option that `--help` lists, with a check that it does something.
const CHECKS: &[(&str, fn())] = &[
    ("--prompt", || assert_eq!(reply(&["--prompt", QUESTION]), reply(&[QUESTION]))),
    ("--prompt-file", || {
        let path = file("prompt", "What is the capital of France?\n");
        assert_eq!(reply(&["--prompt-file", &path]), reply(&[QUESTION]));
    }),
    ("--raw", || {
        let tokens = |raw: &[&str]| value(&[&[QUESTION, "-n", "1"], raw].concat(), "/usage/prompt_tokens");
        assert!(tokens(&["--raw"]).as_u64() < tokens(&[]).as_u64());
    }),
    ("--json", || assert!(reply(&[QUESTION, "--json"]).starts_with('{'))),
    ("--system", || {
        let tokens = |more: &[&str]| value(&[&[QUESTION], more].concat(), "/usage/prompt_tokens");
        assert!(tokens(&["--system", "Be brief."]).as_u64() > tokens(&[]).as_u64());
    }),
    ("--max-tokens", || assert_eq!(value(&[QUESTION, "-n", "1"], "/usage/completion_tokens"), 1)),
    ("--think", || assert!(value(&[SUM, "--think"], "/reasoning").is_string())),
    ("--no-think", || assert!(value(&[SUM, "--think", "--no-think"], "/reasoning").is_null())),
    ("--chat-template", || {
        let path = file("template", "{{ messages[0].content }}");
        let tokens = |more: &[&str]| value(&[&[QUESTION, "-n", "1"], more].concat(), "/usage/prompt_tokens");
        assert!(tokens(&["--chat-template", &path]).as_u64() < tokens(&[]).as_u64());
    }),
    ("--stats", || assert!(run(&[QUESTION, "--stats"]).1.contains("tokens/s"))),
    ("--temperature", || {
        assert_ne!(wild(&[]), reply(&[QUESTION, "-n", "12"]));
        assert_eq!(wild(&["--top-k", "1"]), reply(&[QUESTION, "-n", "12"]));
    }),
    ("--top-k", || assert_ne!(wild(&["--top-k", "2"]), wild(&[]))),
    ("--top-p", || assert_ne!(wild(&["--top-p", "0.01"]), wild(&[]))),
    ("--min-p", || assert_ne!(wild(&["--min-p", "0.99"]), wild(&[]))),
    ("--presence-penalty", || {
        assert_ne!(reply(&[SUM, "--think", "--presence-penalty", "50"]), reply(&[SUM, "--think"]))
    }),
    ("--frequency-penalty", || {
        assert_ne!(reply(&[SUM, "--think", "--frequency-penalty", "50"]), reply(&[SUM, "--think"]));
    }),
    ("--repeat-penalty", || assert_ne!(reply(&[QUESTION, "--repeat-penalty", "50", "-n", "12"]), reply(&[QUESTION]))),
    ("--seed", || {
        let other = reply(&[QUESTION, "--temperature", "50", "--seed", "2", "-n", "12"]);
        assert_ne!(wild(&[]), other);
        assert_eq!(wild(&[]), wild(&[]));
    }),
    ("--model", || {
        let bundle = "../../fixtures/bundles/tiny/tiny_wi8fc.litertlm";
        assert_eq!(value(&["--model", bundle, "--raw", "Hi", "-n", "1"], "/model/name"), bundle);
    }),
    ("--ctx", || assert_eq!(value(&[QUESTION, "--ctx", "100"], "/model/context"), 100)),
    ("--threads", || assert_eq!(value(&[QUESTION, "--threads", "3"], "/model/threads"), 3)),
    ("--tier", || assert_eq!(value(&[QUESTION, "--tier", "portable"], "/model/tier"), "portable")),
    ("--float", || assert_eq!(value(&[QUESTION, "--float"], "/model/weights"), "as stored")),
    ("--verbose", || assert!(run(&[QUESTION, "--verbose"]).1.contains("memory: "))),
    ("--help", || assert!(reply(&["--help"]).contains("Usage: kinglet run"))),
];

#[test]
fn every_option_of_run_has_an_effect() {
    for (name, check) in CHECKS {
        eprintln!("{name}");
        check();
    }
}

#[test]
fn every_option_that_help_lists_is_checked() {
    let help = reply(&["--help"]);
    let words = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let listed: Vec<&str> =
        words.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--"))).collect();
    assert!(listed.len() > 20, "{help}");
    for name in &listed {
        assert!(CHECKS.iter().any(|(checked, _)| checked == name), "{name} is not checked");
    }
    assert_eq!(listed.len(), CHECKS.len(), "something is checked that is not listed");
}

#[test]
fn only_the_reply_is_on_standard_output() {
    let (out, notes) = run(&[QUESTION, "--stats", "--verbose", "--think"]);
    assert!(!out.contains("memory") && notes.contains("memory"), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
}

#[test]
fn whoever_stops_reading_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kinglet"))
        .args(["tokenize", "--show", "--prompt", &"word ".repeat(20_000)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?}", output.status);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_prompt_can_come_from_standard_input() {
    let output = kinglet(&["run"], "What is the capital of France?\n");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), reply(&[QUESTION]));
}

#[test]
fn what_could_steer_a_terminal_in_a_name_is_escaped() {
    let output = kinglet(&["inspect", "no\x1b[2J/such"], "");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains('\x1b') && told.contains("\\u{1b}"), "{told}");
}
