//! Two texts that should be the same go in, where and how they differ comes out, in words and as data; it holds excerpts
//! only, never whole prompts.

use super::Case;
use super::rewrite::rewritten;
use crate::{Error, Message};
use serde::Serialize;
use std::fmt;

/// Where two texts part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Offset of the first byte that differs, on a character boundary of both texts.
    pub at: usize,
    /// What should follow there, at most 60 characters; empty if nothing should.
    pub expected: String,
    /// What does follow.
    pub found: String,
}

impl Difference {
    /// The first difference of two texts.
    pub(super) fn between(expected: &str, found: &str) -> Option<Self> {
        let same = expected.bytes().zip(found.bytes()).take_while(|(left, right)| left == right).count();
        if same == expected.len() && same == found.len() {
            return None;
        }
        let at = (0..=same).rev().find(|&at| expected.is_char_boundary(at) && found.is_char_boundary(at)).unwrap_or(0);
        Some(Self { at, expected: excerpt(&expected[at..]), found: excerpt(&found[at..]) })
    }

    /// Where `text` stops being what it should begin with.
    pub(super) fn from_start(start: &str, text: &str) -> Option<Self> {
        if text.starts_with(start) { None } else { Self::between(start, text) }
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {}: expected {:?}, found {:?}", self.at, self.expected, self.found)
    }
}

/// How a template fails in the official runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It fails by the reference rules already, so there is nothing to hold the runtime to.
    Reference(Error),
    /// The text of a message is missing from the prompt.
    Drop {
        /// The message's role.
        role: String,
        /// Where the prompt differs first.
        difference: Difference,
    },
    /// The runtime refuses the template or the conversation.
    Raise(Error),
    /// A list of parts is printed into the prompt as it stands.
    Leak(Difference),
    /// The prompt differs in another way.
    Differs(Difference),
    /// An edit that makes it work in the runtime changes what the reference rules give.
    Edited(Difference),
}

/// Why a template is not fit for the official runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chat template, case '{case}': {}", self.words())]
pub struct Refusal {
    /// [`Case::name`] of the first conversation that fails, or `any` if the template does not compile.
    pub case: &'static str,
    /// What happens.
    pub failure: Failure,
    /// The line that the error names, as the runtime compiles it, where that is not what the template says.
    compiled: Option<String>,
}

impl Refusal {
    pub(super) fn reference(case: &'static str, error: Error) -> Self {
        Self { case, failure: Failure::Reference(error), compiled: None }
    }

    pub(super) fn raised(case: &'static str, source: &str, error: Error) -> Self {
        let compiled = line_of(&error).and_then(|line| {
            let nth = |source: &str| source.lines().nth(line - 1).map(|line| line.trim().to_owned());
            let compiled = nth(&rewritten(source)).filter(|compiled| nth(source).as_ref() != Some(compiled))?;
            Some(compiled.chars().take(200).collect())
        });
        Self { case, failure: Failure::Raise(error), compiled }
    }

    /// Finds out in which way `found` is not `expected`, `None` if it is.
    pub(super) fn between(case: &Case, expected: &str, found: &str) -> Option<Self> {
        let difference = Difference::between(expected, found)?;
        let failure = if leaks(found) && !leaks(expected) {
            Failure::Leak(difference)
        } else if let Some(message) = case.messages.iter().find(|message| drops(message, expected, found)) {
            Failure::Drop { role: message.role.clone(), difference }
        } else {
            Failure::Differs(difference)
        };
        Some(Self { case: case.name, failure, compiled: None })
    }

    pub(super) fn edited(case: &'static str, difference: Difference) -> Self {
        Self { case, failure: Failure::Edited(difference), compiled: None }
    }

    fn words(&self) -> String {
        match &self.failure {
            Failure::Reference(error) => format!("the reference rules fail: {error}"),
            Failure::Drop { role, difference } => {
                format!("the official runtime drops the text of the {role} message ({difference})")
            }
            Failure::Raise(error) => format!("the official runtime refuses it: {error}"),
            Failure::Leak(difference) => {
                format!("the official runtime prints the list of parts into the prompt ({difference})")
            }
            Failure::Differs(difference) => format!("the official runtime renders another prompt ({difference})"),
            Failure::Edited(difference) => format!("the edits change the prompt by the reference rules ({difference})"),
        }
    }

    /// What the author of the template can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let parts = "the runtime passes every content as a list of parts: join the texts of the parts, as the simple template does";
        let hint = match &self.failure {
            Failure::Drop { .. } | Failure::Leak(_) => parts,
            Failure::Raise(_) if self.compiled.is_some() => {
                let compiled = self.compiled.as_deref().unwrap_or_default();
                return Some(format!("the runtime turns calls of methods into filters, and compiles: {compiled}"));
            }
            Failure::Raise(error) => {
                let said = error.to_string();
                if said.contains("no method named get") {
                    "write x['key'] for x.get('key')"
                } else if said.contains("unknown method") {
                    "the runtime knows no methods but startswith, endswith, replace, split, join, strip, lstrip, rstrip \
                     and items, each call within one line"
                } else if said.contains("unknown statement break") || said.contains("unknown statement continue") {
                    "the runtime has no break and no continue"
                } else if said.contains("tried to use + operator") || said.contains("cannot add") {
                    parts
                } else {
                    return error.hint();
                }
            }
            Failure::Differs(difference) if difference.expected.is_empty() && difference.found == "\n" => {
                "remove the newline at the end of the template, the runtime keeps it"
            }
            Failure::Reference(error) => return error.hint(),
            Failure::Differs(_) | Failure::Edited(_) => return None,
        };
        Some(hint.to_owned())
    }
}

fn line_of(error: &Error) -> Option<usize> {
    match error {
        Error::TemplateSyntax { line, .. } | Error::TemplateFailed { line, .. } if *line > 0 => Some(*line),
        _ => None,
    }
}

/// Whether a prompt holds a printed list of parts.
fn leaks(prompt: &str) -> bool {
    prompt.contains("\"type\": \"text\"")
}

fn drops(message: &Message, expected: &str, found: &str) -> bool {
    let text = message.text();
    let text = text.trim();
    expected.contains(text) && !found.contains(text)
}
