//! Conversations with the demo model, without a terminal.

use std::path::PathBuf;

use super::*;
use crate::load;
use crate::options::{ModelOptions, ReplyOptions, SamplingOptions};

/// Lines from a list; the last one is followed by the end.
struct Script(std::vec::IntoIter<Input>);

impl Lines for Script {
    fn next(&mut self, _prompt: &str) -> io::Result<Input> {
        Ok(self.0.next().unwrap_or(Input::End))
    }
}

fn lines(lines: &[&str]) -> Vec<Input> {
    lines.iter().map(|line| Input::Line((*line).to_owned())).collect()
}

struct Talk {
    out: String,
    notes: String,
    messages: Vec<Message>,
    result: anyhow::Result<()>,
}

fn talk_with(inputs: Vec<Input>, interactive: bool, interrupt: Interrupt, out: &mut dyn Write) -> (Talk, usize) {
    let options = ModelOptions { threads: Some(1), ctx: Some(512), ..ModelOptions::default() };
    let loaded = load::load(None, &options, &Terminal::default()).expect("embedded");
    let settings = Settings::new(&SamplingOptions::default(), &ReplyOptions::default(), loaded.chat.advice());
    let mut notes = Vec::new();
    let terminal = Terminal { stdin: interactive, ..Terminal::default() };
    let mut repl = Repl {
        loaded,
        settings,
        out,
        notes: &mut notes,
        terminal,
        interrupt,
        stats: false,
        show_thought: true,
        last: None,
    };
    let mut script = Script(inputs.into_iter());
    let result = repl.run(&mut script);
    let messages = repl.loaded.chat.messages().to_vec();
    let notes = String::from_utf8(notes).expect("text");
    (Talk { out: String::new(), notes, messages, result }, script.0.len())
}

/// A conversation at something like a terminal.
fn talk(inputs: &[&str]) -> Talk {
    let mut out = Vec::new();
    let (talk, _) = talk_with(lines(inputs), true, Interrupt::default(), &mut out);
    Talk { out: String::from_utf8(out).expect("text"), ..talk }
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| format!("{}: {}", message.role, message.text())).collect()
}

#[test]
fn later_turns_know_what_was_said_earlier() {
    let told = talk(&["My name is Anna.", "What is my name?"]);
    let last = told.out.lines().last().expect("a reply");
    assert!(last.contains("Anna"), "{}", told.out);
    assert_eq!(told.messages.len(), 4);
}

#[test]
fn clear_forgets_what_was_said_and_keeps_the_instructions() {
    let told = talk(&["/system Be brief.", "My name is Anna.", "/clear", "What is my name?"]);
    assert_eq!(told.messages.len(), 3);
    assert_eq!(texts(&told.messages)[..2], ["system: Be brief.", "user: What is my name?"]);
    assert!(!told.out.lines().last().expect("a reply").contains("Anna"), "{}", told.out);
}

#[test]
fn a_cleared_conversation_replies_as_a_new_one() {
    let fresh = talk(&["What is the capital of France?"]);
    let cleared = talk(&["My name is Anna.", "/clear", "What is the capital of France?"]);
    assert_eq!(cleared.out.lines().last(), fresh.out.lines().last());
}

#[test]
fn instructions_are_set_shown_and_replaced_without_losing_the_conversation() {
    let told = talk(&["/system", "Hello.", "/system One.", "/system Two.", "/system"]);
    assert!(told.notes.starts_with("there are no instructions\n"), "{}", told.notes);
    assert!(told.notes.ends_with("Two.\n"), "{}", told.notes);
    assert_eq!(texts(&told.messages)[..2], ["system: Two.", "user: Hello."]);
}

#[test]
fn settings_are_changed_and_shown() {
    let told = talk(&["/set max_tokens 1", "What is the capital of France?", "/set"]);
    assert!(told.notes.contains("max_tokens         1\n"), "{}", told.notes);
    let whole = talk(&["What is the capital of France?"]);
    assert!(told.out.len() < whole.out.len(), "{} against {}", told.out, whole.out);
}

#[test]
fn help_is_written_beside_the_replies_and_names_every_command() {
    let told = talk(&["/help"]);
    assert_eq!(told.out, "");
    for command in ["/clear", "/system", "/set", "/stats", "/save", "/load", "/bye", "\"\"\"", "ctrl-c"] {
        assert!(told.notes.contains(command), "{command}");
    }
}

#[test]
fn stats_tell_of_the_last_reply() {
    let told = talk(&["/stats", "What is the capital of France?", "/stats"]);
    assert!(told.notes.starts_with("there was no reply yet\n"), "{}", told.notes);
    assert!(told.notes.contains("tokens/s"), "{}", told.notes);
}

#[test]
fn the_second_turn_reads_only_what_is_new() {
    let told = talk(&["My name is Anna.", "What is my name?", "/stats"]);
    let words: Vec<&str> = told.notes.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "cached,").expect("told");
    let (cached, prompt) = (words[at - 1].parse::<u32>(), words[at - 3].parse::<u32>());
    assert!(2 * cached.expect("a number") > prompt.expect("a number"), "{}", told.notes);
}

#[test]
fn an_unknown_command_is_named_and_the_conversation_goes_on() {
    let told = talk(&["/tmp/x is a path", "Hello."]);
    assert!(told.result.is_ok());
    assert!(told.notes.contains("error: there is no command /tmp/x\nhint: "), "{}", told.notes);
    assert_eq!(told.messages.len(), 2);
}

#[test]
fn without_a_terminal_an_error_ends_the_conversation() {
    let mut out = Vec::new();
    let (told, left) = talk_with(lines(&["/nonsense", "Hello."]), false, Interrupt::default(), &mut out);
    assert!(told.result.expect_err("refused").to_string().contains("/nonsense"));
    assert_eq!(left, 1);
}

#[test]
fn bye_and_the_end_of_input_leave() {
    let mut out = Vec::new();
    let (told, left) = talk_with(lines(&["/bye", "Hello."]), true, Interrupt::default(), &mut out);
    assert!(told.result.is_ok() && told.messages.is_empty());
    assert_eq!(left, 1);
    assert!(talk(&[]).result.is_ok());
}

#[test]
fn a_message_of_several_lines_is_one_message() {
    for (inputs, expected) in [
        (&["\"\"\"one", "", "two\"\"\""][..], "one\n\ntwo"),
        (&["\"\"\"", "one", "two", "\"\"\""], "one\ntwo"),
        (&["\"\"\"one line\"\"\""], "one line"),
        (&["\"\"\"", "/bye", "\"\"\""], "/bye"),
    ] {
        assert_eq!(talk(inputs).messages[0].text(), expected, "{inputs:?}");
    }
}

#[test]
fn a_message_of_several_lines_can_be_given_up() {
    let mut out = Vec::new();
    let mut inputs = lines(&["\"\"\"one", "two"]);
    inputs.push(Input::Interrupted);
    let (told, _) = talk_with(inputs, true, Interrupt::default(), &mut out);
    assert!(told.messages.is_empty() && out.is_empty());
}

#[test]
fn ctrl_c_at_the_prompt_tells_how_to_leave_and_stays() {
    let mut out = Vec::new();
    let mut inputs = vec![Input::Interrupted, Input::Interrupted];
    inputs.extend(lines(&["Hello."]));
    let (told, _) = talk_with(inputs, true, Interrupt::default(), &mut out);
    assert_eq!(told.notes, "/bye or ctrl-d leaves\n/bye or ctrl-d leaves\n");
    assert_eq!(told.messages.len(), 2);
}

/// Asks to stop as soon as something is written.
struct StopAtOnce(Interrupt, Vec<u8>, usize);

impl Write for StopAtOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.2 == 0 {
            self.0.request();
        }
        self.2 += 1;
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn ctrl_c_during_a_reply_ends_it_and_the_next_one_is_whole() {
    let question = "What is the capital of France?";
    let whole = talk(&[question]).out;
    let interrupt = Interrupt::default();
    let mut out = StopAtOnce(interrupt.clone(), Vec::new(), 0);
    let (told, _) = talk_with(lines(&[question, "/clear", question]), true, interrupt, &mut out);
    assert!(told.result.is_ok());
    let text = String::from_utf8(out.1).expect("text");
    let (first, second) = text.split_once('\n').expect("two replies");
    assert!(whole.starts_with(first) && first.len() < whole.trim_end().len(), "{first}");
    assert_eq!(second, whole);
}

#[test]
fn what_was_said_before_ctrl_c_stays_in_the_conversation() {
    let interrupt = Interrupt::default();
    let mut out = StopAtOnce(interrupt.clone(), Vec::new(), 0);
    let (told, _) = talk_with(lines(&["What is the capital of France?"]), true, interrupt, &mut out);
    assert_eq!(told.messages.len(), 2);
    assert_eq!(told.messages[1].text(), String::from_utf8(out.1).expect("text").trim_end());
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kinglet-repl-{}-{name}.json", std::process::id()))
}

#[test]
fn a_saved_conversation_goes_on_where_it_stopped() {
    let path = file("saved");
    let shown = path.display();
    let whole = talk(&["My name is Anna.", &format!("/save {shown}"), "What is my name?"]);
    let resumed = talk(&[&format!("/load {shown}"), "What is my name?"]);
    std::fs::remove_file(&path).expect("it was saved");
    assert!(whole.notes.contains("saved 2 messages\n") && resumed.notes.contains("loaded 2 messages\n"));
    assert_eq!(resumed.out.lines().last(), whole.out.lines().last());
    assert_eq!(resumed.messages, whole.messages);
}

#[test]
fn a_file_that_cannot_be_loaded_changes_nothing() {
    let path = file("broken");
    std::fs::write(&path, "[{\"content\": \"no role\"}]").expect("writable");
    let told = talk(&["Hello.", &format!("/load {}", path.display()), "/load no/such/file", "/load"]);
    std::fs::remove_file(&path).expect("ours");
    assert_eq!(told.messages.len(), 2);
    for error in ["messages[0]: role is missing", "no/such/file", "expected /load FILE"] {
        assert!(told.notes.contains(error), "{error}: {}", told.notes);
    }
}

#[test]
fn a_message_that_does_not_fit_is_refused_and_forgotten() {
    let long = "word ".repeat(600);
    let told = talk(&[&long, "Hello."]);
    assert!(told.notes.contains("the context has room for 512"), "{}", told.notes);
    assert_eq!(texts(&told.messages)[0], "user: Hello.");
}
