//! A chat template goes in, the proof that the official runtime renders it as the reference library does comes out, or the
//! first conversation for which it does not; no runtime is called and nothing is stored.
//!
//! A bundle carries a chat template, and two programs render it: this one, by the rules of the reference library, and the
//! official runtime, [`RUNTIME`], by its own. Where they differ, the model sees prompts that it was not trained on, and
//! nobody is told. So a template is tried on a set of conversations by both rules before it is stored, and the prompts
//! have to be equal byte for byte:
//!
//! ```
//! use kinglet_text::proof::{self, Failure};
//!
//! let proof = proof::prove(proof::SIMPLE)?;
//! assert!(proof.second_turn.is_none() && proof.continuation.is_none());
//!
//! let text_only = "{% for message in messages %}{{ '<' ~ message.content ~ '>' }}{% endfor %}";
//! let refusal = proof::prove(text_only).unwrap_err();
//! assert!(matches!(refusal.failure, Failure::Leak(_)));
//! # Ok::<(), proof::Refusal>(())
//! ```

mod cases;
mod refusal;
mod repair;
mod rewrite;
mod runtime;

use crate::{Error, Template};
use cases::Suite;
use serde::Serialize;

pub use cases::Case;
pub use refusal::{Difference, Failure, Refusal};
pub use repair::{Edit, Stock, stock};
pub use runtime::RuntimeTemplate;

/// The runtime whose renderer is emulated.
pub const RUNTIME: &str = "litert-lm 0.18.1";

/// A ChatML template for text: roles `system`, `user` and `assistant`, contents as strings or lists of text parts.
///
/// It is equal by both rules, and its prompts extend each other: past answers keep their think block, be it empty, as
/// the model wrote it. Thinking is off unless `enable_thinking` is true. Texts are trimmed. It refuses tools, other
/// roles and parts that are no text.
pub const SIMPLE: &str = include_str!("proof/simple.jinja");

/// A conversation with its prompt, which is the same by both rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rendering {
    /// The conversation.
    #[serde(flatten)]
    pub case: Case,
    /// The prompt.
    pub text: String,
}

/// What is known about a template that the official runtime renders as the reference library does.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Proof {
    /// Whether contents were lists of parts for the reference rules too, since the template finds no text in plain ones.
    pub has_parts: bool,
    /// The conversations that it was tried on.
    pub renderings: Vec<Rendering>,
    /// Names of the conversations that the template refuses by both rules, such as those with a system message.
    pub refused: Vec<&'static str>,
    /// Roles whose messages do not reach the prompt, by either rule, such as `system` for a template that skips it.
    pub forgotten: Vec<String>,
    /// Where the prompt of a second turn departs from the first turn as the template renders it then.
    ///
    /// The official runtime renders the conversation with and without the new message, and feeds what the longer text
    /// adds. If the longer text does not begin with the shorter one, it fails: with such a template every conversation
    /// ends after one turn. The stock templates of Qwen3.5 are of this kind, for they drop the think block of an answer
    /// once a new question comes. It is no matter to a program that computes the whole prompt, or goes back to where two
    /// prompts part, as this one does.
    pub second_turn: Option<Difference>,
    /// Where the prompt of a second turn departs from the first prompt with the model's reply behind it.
    ///
    /// A program that keeps the state of the model cannot keep it then. If it does all the same, as the official runtime
    /// does, the model sees another conversation than the template renders.
    pub continuation: Option<Difference>,
}

impl Proof {
    /// What is wrong with the template though both rules agree on it, in sentences; nothing for [`SIMPLE`].
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for role in &self.forgotten {
            warnings.push(format!("the chat template leaves out what the {role} says"));
        }
        for case in &self.refused {
            warnings.push(format!("the chat template refuses conversations of the kind '{case}'"));
        }
        if let Some(difference) = &self.second_turn {
            let why = "the official runtime fails at the second message of a conversation, for the chat template renders past turns";
            warnings.push(format!("{why} in another way than the last ({difference})"));
        } else if let Some(difference) = &self.continuation {
            let why = "the chat template does not continue a prompt and its reply, so the official runtime shows the model another";
            warnings.push(format!("{why} conversation than the template renders ({difference})"));
        }
        warnings
    }

    fn note_forgotten(&mut self, case: &Case, text: &str) {
        for message in &case.messages {
            let said = message.text();
            // Thoughts of past turns are left out on purpose.
            if !said.contains("</think>") && !text.contains(said.trim()) && !self.forgotten.contains(&message.role) {
                self.forgotten.push(message.role.clone());
            }
        }
    }
}

/// Holds the official runtime to the reference rules.
///
/// The conversations are those with and without a system message, of one and of several turns, with blanks and signs that
/// a template might alter, and with thinking on and off if the template reads `enable_thinking`.
///
/// # Errors
/// The first conversation that is not rendered the same, and why.
pub fn prove(source: &str) -> Result<Proof, Refusal> {
    prove_as(source, source)
}

/// Name of the case where a template fails before it meets any.
const ANY: &str = "any";

/// Holds `stored`, in the official runtime and by the reference rules, to `original` by the reference rules.
fn prove_as(original: &str, stored: &str) -> Result<Proof, Refusal> {
    let compile = |source| Template::new(source).map_err(|error| Refusal::reference(ANY, error));
    let (original, reference) = (compile(original)?, compile(stored)?);
    let runtime = RuntimeTemplate::new(stored).map_err(|error| Refusal::raised(ANY, stored, error))?;
    let suite = Suite { reads_thinking: stored.contains("enable_thinking"), has_parts: wants_parts(&original) };
    let mut proof = Proof { has_parts: suite.has_parts, ..Proof::default() };
    for case in suite.all() {
        // What the reference rules stop at a limit never reaches the runtime's engine, which has fewer limits.
        let text = match original.render_text(&case.input()) {
            Ok(text) => text,
            Err(Error::TemplateRaised { .. }) if case.may_be_refused && runtime.render(&case.input()).is_err() => {
                proof.refused.push(case.name);
                continue;
            }
            Err(error) => return Err(Refusal::reference(case.name, error)),
        };
        let edited = rendered(&reference, &case)?;
        if let Some(difference) = Difference::between(&text, &edited) {
            return Err(Refusal::edited(case.name, difference));
        }
        let found = runtime.render(&case.input()).map_err(|error| Refusal::raised(case.name, stored, error))?;
        if let Some(refusal) = Refusal::between(&case, &text, &found) {
            return Err(refusal);
        }
        proof.note_forgotten(&case, &text);
        proof.renderings.push(Rendering { case, text });
    }
    for (first, reply, second) in suite.turns() {
        let start = rendered(&reference, &first)? + reply;
        let found = Difference::from_start(&start, &rendered(&reference, &second)?);
        proof.continuation = proof.continuation.or(found);
        if first.enable_thinking.is_none() {
            let before = rendered(&reference, &suite.first_turn())?;
            proof.second_turn = Difference::from_start(&before, &rendered(&reference, &second)?);
        }
    }
    Ok(proof)
}

/// Whether a template finds texts in lists of parts only, as those of models that also see do.
fn wants_parts(template: &Template) -> bool {
    let shows = |has_parts| {
        let (case, text) = Suite { reads_thinking: false, has_parts }.question();
        template.render_text(&case.input()).is_ok_and(|prompt| prompt.contains(text))
    };
    !shows(false) && shows(true)
}

fn rendered(template: &Template, case: &Case) -> Result<String, Refusal> {
    template.render_text(&case.input()).map_err(|error| Refusal::reference(case.name, error))
}
