//! The conversations that a template is tried on; nothing goes in, and nothing is rendered here.

use crate::{Content, Message, Part, RenderInput};
use serde::Serialize;

/// A conversation that a template is tried on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// What it is about, in a few words.
    pub name: &'static str,
    /// The conversation, with contents as plain text, or as lists of one part for a template that knows only those.
    pub messages: Vec<Message>,
    /// Whether the assistant shall think; `None` leaves it to the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_thinking: Option<bool>,
    /// Whether the prompt ends with the opening of an assistant's turn. It does where a message is sent, and does not
    /// where the official runtime renders what it has, to find what is new in the next prompt.
    pub add_generation_prompt: bool,
    /// Whether a template may refuse it, if it does so by both rules.
    #[serde(skip)]
    pub(super) may_be_refused: bool,
}

impl Case {
    pub(super) fn input(&self) -> RenderInput<'_> {
        RenderInput {
            messages: &self.messages,
            enable_thinking: self.enable_thinking,
            add_generation_prompt: self.add_generation_prompt,
            ..RenderInput::default()
        }
    }

    fn with_parts(mut self) -> Self {
        for message in &mut self.messages {
            message.content = Some(Content::Parts(vec![Part::text(message.text())]));
        }
        self
    }
}

/// Which conversations a template is tried on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suite {
    /// Whether thinking is switched on and off, too.
    pub(super) reads_thinking: bool,
    /// Whether contents are lists of parts.
    pub(super) has_parts: bool,
}

const QUESTION: &str = "What is the capital of France?";
const SYSTEM: &str = "You are a concise, helpful assistant. Preserve system marker SYS_AUDIT_314159.";
const ANSWER: &str = "Paris is the capital of France. ASSISTANT_AUDIT_271828.";
const FOLLOW_UP: &str = "Which country is Paris in? USER_SECOND_161803.";
/// What an assistant that thinks writes behind the opening of its turn.
const THOUGHT: &str = "France is a country, so a city is asked for.\n</think>\n\nParis. THOUGHT_AUDIT_141421.";
const BLANKS: &str = " \n\tTwo  blanks,\r\n\n and a tail\u{a0}\n ";
const SIGNS: &str = "<b>\"it's\" & {{ braces }} {% tag %} \\n नमस्ते 😀 [{'type': 1}]";

fn chat(turns: &[(&str, &str)]) -> Vec<Message> {
    turns.iter().map(|&(role, text)| Message::new(role, text)).collect()
}

fn case(name: &'static str, turns: &[(&str, &str)]) -> Case {
    let messages = chat(turns);
    Case { name, messages, enable_thinking: None, add_generation_prompt: true, may_be_refused: false }
}

impl Suite {
    /// The simplest conversation, and the text that its prompt must hold.
    pub(super) fn question(self) -> (Case, &'static str) {
        (self.formed(case("user", &[("user", QUESTION)])), QUESTION)
    }

    /// All conversations.
    pub(super) fn all(self) -> Vec<Case> {
        conversations(self.reads_thinking).into_iter().map(|case| self.formed(case)).collect()
    }

    /// One turn, as it stands when the next message comes.
    pub(super) fn first_turn(self) -> Case {
        self.formed(first_turn())
    }

    /// Pairs of prompts and replies with the prompts that follow: a template that extends its prompts begins the second
    /// with the first.
    pub(super) fn turns(self) -> Vec<(Case, &'static str, Case)> {
        let pair = |enable_thinking, reply| {
            let first = case("first turn", &[("user", QUESTION)]);
            let second = case("second turn", &[("user", QUESTION), ("assistant", reply), ("user", FOLLOW_UP)]);
            let formed = |case| self.formed(Case { enable_thinking, ..case });
            (formed(first), reply, formed(second))
        };
        let mut turns = vec![pair(None, ANSWER)];
        if self.reads_thinking {
            turns.push(pair(Some(false), ANSWER));
            turns.push(pair(Some(true), THOUGHT));
        }
        turns
    }

    fn formed(self, case: Case) -> Case {
        if self.has_parts { case.with_parts() } else { case }
    }
}

fn conversations(reads_thinking: bool) -> Vec<Case> {
    let (user, system, assistant) = ("user", "system", "assistant");
    let mut cases = vec![
        case("user", &[(user, QUESTION)]),
        case("user, assistant, user", &[(user, QUESTION), (assistant, ANSWER), (user, FOLLOW_UP)]),
        first_turn(),
        Case { may_be_refused: true, ..case("system, user", &[(system, SYSTEM), (user, QUESTION)]) },
        Case {
            may_be_refused: true,
            ..case(
                "system and three turns",
                &[
                    (system, SYSTEM),
                    (user, QUESTION),
                    (assistant, ANSWER),
                    (user, FOLLOW_UP),
                    (assistant, THOUGHT),
                    (user, QUESTION),
                ],
            )
        },
        case("blanks around texts", &[(user, BLANKS), (assistant, BLANKS), (user, BLANKS)]),
        case("signs of all kinds", &[(user, SIGNS), (assistant, SIGNS), (user, SIGNS)]),
    ];
    if reads_thinking {
        let thinking = [
            ("user, thinking off", "three messages, thinking off", false, ANSWER),
            ("user, thinking on", "three messages, thinking on", true, THOUGHT),
        ];
        for (one, three, enable_thinking, answer) in thinking {
            let turns = [(user, QUESTION), (assistant, answer), (user, FOLLOW_UP)];
            for case in [case(one, &turns[..1]), case(three, &turns)] {
                cases.push(Case { enable_thinking: Some(enable_thinking), ..case });
            }
        }
    }
    cases
}

fn first_turn() -> Case {
    let turns = [("user", QUESTION), ("assistant", ANSWER)];
    Case { add_generation_prompt: false, ..case("user, assistant, nothing to answer", &turns) }
}
