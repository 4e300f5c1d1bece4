//! Why a reply could not be made.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a reply could not be made. The conversation is as it was before the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The prompt does not fit the context.
    #[error("the prompt has {prompt} tokens, the context has room for {context}")]
    PromptTooLong {
        /// Tokens of the whole rendered conversation.
        prompt: usize,
        /// Positions of the session.
        context: usize,
    },
    /// The prompt is empty.
    #[error("the prompt is empty: the chat template makes no text of the conversation")]
    EmptyPrompt,
    /// The model has no chat template.
    #[error("the model has no chat template")]
    NoTemplate,
    /// The tokenizer or the template refused.
    #[error(transparent)]
    Text(#[from] kinglet_text::Error),
    /// The engine refused, or the model's numbers are not finite.
    #[error(transparent)]
    Engine(#[from] kinglet_engine::Error),
}

impl Error {
    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::PromptTooLong { prompt, .. } => {
                let enough = (prompt + 256).next_power_of_two();
                Some(format!("shorten it, or give more room, as with --ctx {enough}, if the model has as much"))
            }
            Error::NoTemplate => Some("use --raw to continue plain text, or --chat-template FILE".to_owned()),
            Error::Text(error) => error.hint(),
            _ => None,
        }
    }
}
