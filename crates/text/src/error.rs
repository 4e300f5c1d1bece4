//! What can go wrong with a tokenizer, a template or a message goes in, one sentence that names the place comes out; it
//! never holds a whole document.

/// Why a tokenizer, a template or a message was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is larger than any tokenizer that this crate reads.
    #[error("tokenizer.json holds {bytes} bytes, more than the {limit} that are read")]
    TokenizerTooLarge {
        /// Size of the input in bytes.
        bytes: usize,
        /// The largest size that is read, in bytes.
        limit: usize,
    },
    /// The file is not the JSON of a tokenizer.
    #[error("tokenizer.json: {0}")]
    TokenizerJson(String),
    /// The tokenizer asks for something that would need code this crate does not have.
    #[error("tokenizer.json: {section} is {found}, expected {expected}")]
    Unsupported {
        /// Path of the field, such as `model.type`.
        section: &'static str,
        /// What the file says.
        found: String,
        /// What this crate can do.
        expected: &'static str,
    },
    /// The tokenizer contradicts itself.
    #[error("tokenizer.json: {section}: {reason}")]
    TokenizerInconsistent {
        /// Path of the field, such as `model.merges`.
        section: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A token has an id for which the model has no row.
    #[error("token {token:?} has id {id}, but the model's vocabulary has {model_vocab} rows")]
    Misfit {
        /// The token, as `tokenizer.json` spells it.
        token: String,
        /// Its id.
        id: u32,
        /// Rows of the model's embedding table.
        model_vocab: usize,
    },
    /// The split pattern ran out of its step budget, so the text cannot be cut into words.
    #[error("the tokenizer's split pattern gave up at byte {at} of {len} bytes of text")]
    SplitGaveUp {
        /// Offset in bytes within the normalised text between two special tokens.
        at: usize,
        /// Length of that text in bytes.
        len: usize,
    },
    /// The byte-pair encoder refused a word.
    #[error("cannot encode text: {0}")]
    Encode(String),
    /// The template is larger than any that this crate compiles.
    #[error("the chat template holds {bytes} bytes, more than the {limit} that are read")]
    TemplateTooLarge {
        /// Size of the source in bytes.
        bytes: usize,
        /// The largest size that is compiled, in bytes.
        limit: usize,
    },
    /// The template does not parse.
    #[error("chat template, line {line}: {reason}")]
    TemplateSyntax {
        /// Line in the template, counted from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// The template itself refused the conversation with `raise_exception`.
    #[error("the chat template refused the conversation: {message} (line {line})")]
    TemplateRaised {
        /// The template's own words.
        message: String,
        /// Line in the template, counted from 1.
        line: usize,
    },
    /// The template used an operation on a value that does not have it.
    #[error("chat template{}: {reason}", At(*line))]
    TemplateFailed {
        /// Line in the template, counted from 1; 0 where unknown.
        line: usize,
        /// What went wrong.
        reason: String,
    },
    /// The template was stopped because it would not end or grows without bound.
    #[error("chat template{}: stopped, {reason}", At(*line))]
    TemplateLimit {
        /// Line in the template, counted from 1; 0 where unknown.
        line: usize,
        /// The limit that it met.
        reason: String,
    },
    /// A message is not of the shape that chat messages have.
    #[error("messages[{index}]: {reason}")]
    Message {
        /// Position in the list, counted from 0.
        index: usize,
        /// The field and what is wrong with it.
        reason: String,
    },
}

/// A line of a template, if it is known.
struct At(usize);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, ", line {}", self.0) }
    }
}

impl Error {
    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::TokenizerJson(_) => "this must be the complete tokenizer.json of the model's repository",
            Error::Misfit { .. } => "take tokenizer.json and the weights from the same repository and revision",
            Error::SplitGaveUp { .. } => "shorten the longest run of blanks or line ends in the text",
            Error::TemplateRaised { message, .. } => return raised_hint(message),
            Error::TemplateLimit { .. } => "use the template that came with the model, or shorten the conversation",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Cures for the refusals of stock templates, found by the words that they share.
fn raised_hint(message: &str) -> Option<String> {
    let lower = message.to_lowercase();
    let hint = if lower.contains("system message") && lower.contains("beginning") {
        "merge all system messages into one and put it first"
    } else if lower.contains("no user query") {
        "add a message with role user"
    } else if lower.contains("no messages") {
        "send at least one message"
    } else if lower.contains("role") {
        "use the roles system, user, assistant and tool"
    } else {
        return None;
    };
    Some(hint.to_owned())
}
