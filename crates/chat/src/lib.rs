//! Messages go in, events come out: a conversation over one engine, whose next turn costs only its new tokens and equals
//! a fresh run; it never prints and never reads a clock.
//!
//! Rooms, in reading order: [`Chat`], `history` (which ids the session has read, and where it can go back to),
//! [`reply`] (thought and content while ids arrive).

pub mod error;
mod history;
pub mod reply;

use std::ops::ControlFlow;
use std::sync::Arc;

use kinglet_engine::{Engine, Options, Sampler, Sampling, Session, Want};
use kinglet_model::Model;
use kinglet_model::assets::{SamplingAdvice, Stop};
use kinglet_text::{Message, Prompt, RenderInput, Specials, Template, Tokenizer};

pub use error::{Error, Result};
pub use reply::Piece;

use history::History;
use reply::Stream;

/// What happens while a reply is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// `done` of `total` prompt tokens are in the session; `cached` of them were there before.
    Prompt {
        /// Tokens read.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// Tokens that needed no work.
        cached: usize,
    },
    /// A piece of the reply.
    Piece(Piece<'a>),
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it, or a stop text was completed.
    Stop,
    /// The token limit was reached.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The caller cancelled it.
    Cancelled,
}

impl Finish {
    /// As written in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::MaxTokens => "length",
            Finish::ContextFull => "context",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// How to make a reply.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How to choose ids.
    pub sampling: Sampling,
    /// Most tokens of the reply; `None` is until the context is full.
    pub max_tokens: Option<usize>,
    /// Whether to think first; `None` leaves it to the template.
    pub think: Option<bool>,
}

/// A finished reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The answer.
    pub content: String,
    /// The thought, if there was one.
    pub thought: Option<String>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens that needed no work.
    pub cached_tokens: usize,
    /// Tokens of the reply.
    pub reply_tokens: usize,
}

/// One conversation.
pub struct Chat {
    engine: Engine,
    session: Session,
    history: History,
    tokenizer: Arc<Tokenizer>,
    template: Option<Template>,
    stops: Vec<Stop>,
    advice: SamplingAdvice,
    messages: Vec<Message>,
    logits: Vec<f32>,
}

impl Chat {
    /// A conversation with `model` over at most `context` tokens.
    ///
    /// # Errors
    /// A tokenizer or template that cannot be used, or ids of the tokenizer that the model does not have.
    pub fn new(model: &Model, options: &Options, context: usize) -> Result<Chat> {
        let tokenizer = Tokenizer::from_json(&model.assets.tokenizer)?;
        tokenizer.check_fits(model.plan.vocab)?;
        let template = model.assets.template.as_deref().map(Template::new).transpose()?;
        let engine = Engine::new(Arc::clone(&model.plan), Arc::clone(&model.weights), options);
        Ok(Chat {
            session: engine.session(context),
            logits: vec![0.0; model.plan.vocab],
            engine,
            history: History::default(),
            tokenizer: Arc::new(tokenizer),
            template,
            stops: model.assets.stops.clone(),
            advice: model.assets.sampling.clone(),
            messages: Vec::new(),
        })
    }

    /// Uses another template from now on.
    ///
    /// # Errors
    /// A template that does not parse.
    pub fn set_template(&mut self, source: &str) -> Result<()> {
        self.template = Some(Template::new(source)?);
        Ok(())
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Replaces the conversation, as when a saved one is loaded. What the session still knows of it stays of use.
    pub fn set_messages(&mut self, messages: Vec<Message>) {
        self.messages = messages;
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Sampling values that the model's makers advise.
    pub fn advice(&self) -> &SamplingAdvice {
        &self.advice
    }

    /// `(tokens in the session, tokens it has room for)`.
    pub fn context(&self) -> (usize, usize) {
        (self.session.position(), self.session.capacity())
    }

    /// Adds a user's message, makes the reply and adds that. On an error the messages are as before.
    ///
    /// `show` is called for every event, and ends the reply by returning `Break`; what was said until then stays in the
    /// conversation.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn say(
        &mut self,
        text: &str,
        request: &Request,
        show: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Reply> {
        self.messages.push(Message::new("user", text));
        let reply = self.respond(request, show);
        match &reply {
            // Nothing was said: the turn did not happen.
            Ok(reply) if reply.finish == Finish::Cancelled && reply.reply_tokens == 0 => drop(self.messages.pop()),
            Ok(reply) => self.messages.push({
                let mut message = Message::new("assistant", reply.content.as_str());
                message.reasoning_content.clone_from(&reply.thought);
                message
            }),
            Err(_) => drop(self.messages.pop()),
        }
        reply
    }

    /// Makes a reply to the messages as they are, without adding it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn respond(&mut self, request: &Request, show: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> Result<Reply> {
        let prompt = self.render(request.think, true)?;
        let ids = self.tokenizer.encode_prompt(&prompt)?;
        let without = self.tokenizer.encode_prompt(&self.render(request.think, false)?)?;
        let settled = ids.iter().zip(&without).take_while(|(a, b)| a == b).count();
        // Only the template writes after the last message, so this is no user's text.
        let thinking = ids.len() > settled && prompt.text().trim_end().ends_with("<think>");
        self.generate(&ids, settled, thinking, request, show)
    }

    /// Continues plain text: no template, no roles. Special tokens in `text` are recognised.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn complete(
        &mut self,
        text: &str,
        request: &Request,
        show: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Reply> {
        let ids = self.tokenizer.encode(text, Specials::Parse)?;
        self.generate(&ids, ids.len(), false, request, show)
    }

    /// The prompt that the messages make.
    ///
    /// # Errors
    /// No template, or one that refuses these messages.
    pub fn render(&self, think: Option<bool>, generation: bool) -> Result<Prompt> {
        let template = self.template.as_ref().ok_or(Error::NoTemplate)?;
        let input = RenderInput {
            messages: &self.messages,
            add_generation_prompt: generation,
            enable_thinking: think,
            ..RenderInput::default()
        };
        Ok(template.render(&input, &self.tokenizer)?)
    }

    fn generate(
        &mut self,
        ids: &[u32],
        settled: usize,
        thinking: bool,
        request: &Request,
        show: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Reply> {
        if ids.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if ids.len() > self.session.capacity() {
            return Err(Error::PromptTooLong { prompt: ids.len(), context: self.session.capacity() });
        }
        let cached = self.history.rewind(&mut self.session, ids)?;
        let mut reply = Reply {
            content: String::new(),
            thought: None,
            finish: Finish::Stop,
            prompt_tokens: ids.len(),
            cached_tokens: cached,
            reply_tokens: 0,
        };
        if self.read_prompt(ids, settled, cached, show)?.is_break() {
            reply.finish = Finish::Cancelled;
            return Ok(reply);
        }
        let tokenizer = Arc::clone(&self.tokenizer);
        let stops = self.stops.clone();
        let mut stream = Stream::new(&tokenizer, &stops, thinking);
        let mut sampler = Sampler::new(request.sampling.clone(), self.logits.len(), ids);
        reply.finish = self.write(&mut sampler, &mut stream, request, &mut reply.reply_tokens, show)?;
        stream.finish(&mut |piece| {
            // The reply has ended: a wish to end it changes nothing.
            let _ = show(Event::Piece(piece));
        });
        reply.thought = (!stream.thought.is_empty()).then(|| stream.thought.trim_end().to_owned());
        reply.content = stream.content;
        Ok(reply)
    }

    /// Reads what the session does not know yet of `ids`, and marks the place where the next turn will differ.
    fn read_prompt(
        &mut self,
        ids: &[u32],
        settled: usize,
        cached: usize,
        show: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let total = ids.len();
        let mut done = cached;
        while done < total {
            let border = if done < settled && settled < total { settled } else { total };
            let end = border.min(done + self.engine.chunk());
            let want = if end == total { Want::Last(&mut self.logits) } else { Want::Nothing };
            self.engine.advance(&mut self.session, &ids[done..end], want)?;
            self.history.read(&ids[done..end]);
            done = end;
            if done == settled {
                self.history.mark(&self.session);
            }
            if show(Event::Prompt { done, total, cached }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn write(
        &mut self,
        sampler: &mut Sampler,
        stream: &mut Stream<'_>,
        request: &Request,
        count: &mut usize,
        show: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Finish> {
        if request.max_tokens == Some(0) {
            return Ok(Finish::MaxTokens);
        }
        loop {
            let id = sampler.choose(&mut self.logits)?;
            if self.stops.contains(&Stop::Id(id)) {
                return Ok(Finish::Stop);
            }
            *count += 1;
            let mut flow = ControlFlow::Continue(());
            let stopped = stream.push(id, &mut |piece| {
                if flow.is_continue() {
                    flow = show(Event::Piece(piece));
                }
            });
            if stopped {
                return Ok(Finish::Stop);
            }
            if flow.is_break() {
                return Ok(Finish::Cancelled);
            }
            if request.max_tokens.is_some_and(|most| *count >= most) {
                return Ok(Finish::MaxTokens);
            }
            if self.session.remaining() == 0 {
                return Ok(Finish::ContextFull);
            }
            self.engine.advance(&mut self.session, &[id], Want::Last(&mut self.logits))?;
            self.history.read(&[id]);
        }
    }
}
