//! Bytes of `tokenizer.json` and the source of a chat template go in; token ids, prompt strings and decoded text come
//! out; this crate never sees a model, a file or the network.
//!
//! ```
//! use kinglet_text::{Message, RenderInput, Template};
//!
//! let template = Template::new("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}")?;
//! let messages = [Message::new("user", "Hi")];
//! let text = template.render_text(&RenderInput { messages: &messages, ..RenderInput::default() })?;
//! assert_eq!(text, "<|user|>Hi\n");
//! # Ok::<(), kinglet_text::Error>(())
//! ```

mod error;
mod message;
mod prompt;
pub mod proof;
mod template;
mod tokenizer;

pub use error::Error;
pub use message::{Content, Message, Part};
pub use prompt::{Prompt, Segment, Specials};
pub use template::{RenderInput, TEMPLATE_THREAD, Template};
pub use tokenizer::{AddedToken, Detokenizer, Tokenizer};
