//! The source of a chat template goes in once, then conversations go in and prompts come out; it reads no clock, no file
//! and no other template.

pub(crate) mod bounds;
mod json;
mod literal;
mod python;
pub(crate) mod stack;

pub use stack::TEMPLATE_THREAD;

use crate::{Error, Message, Prompt, Tokenizer};
use literal::{Marker, Trust};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::{Map, Value as Json};

/// Longest source that is compiled, in bytes; the stock ones have 8 KiB.
pub(crate) const MAX_SOURCE: usize = 256 << 10;
/// Stack for compiling what is within [`bounds`]: 0.8 KB for each link of a chain, 1.6 KB for each `elif`, as measured,
/// and room for a build without optimisation.
const COMPILER_STACK: usize = 16 << 20;
/// Work that every rendering may do, in instructions of the engine; 64 bytes of text produced cost as much as one. The
/// stock templates take 100 and 70 for each message.
const BASE_FUEL: usize = 50_000;
const FUEL_PER_MESSAGE: usize = 500;
/// Further work for the texts, each of which may be gone through this many times.
const PASSES: usize = 8;
/// Most work for any conversation.
const MAX_FUEL: usize = 2_000_000;
/// Stack for one unit of work. Lists within lists are the worst, a level for each two, at 160 bytes.
const STACK_PER_FUEL: usize = 512;
/// Macros and loops within each other.
const MAX_RECURSION: usize = 100;
/// Deepest nesting of the JSON that is passed to a template.
pub(crate) const MAX_DEPTH: usize = 128;
/// Output that every rendering may write, in bytes, beside [`OUTPUT_FACTOR`] times the size of its input.
const BASE_OUTPUT: usize = 16 << 20;
const OUTPUT_FACTOR: usize = 16;

/// What a template is rendered with.
#[derive(Debug, Clone, Default)]
pub struct RenderInput<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// Tools on offer, a list as in the chat-completions protocol.
    pub tools: Option<&'a Json>,
    /// Whether the prompt ends with the opening of an assistant's turn.
    pub add_generation_prompt: bool,
    /// Whether the assistant thinks first; `None` leaves it to the template.
    pub enable_thinking: Option<bool>,
    /// Further variables. They do not replace the ones above. Strings in them are taken as a user's, except in
    /// variables named `*_token`, such as `bos_token`, which are the operator's.
    pub extra: Map<String, Json>,
}

/// A compiled chat template.
///
/// The dialect is that of the reference library: Jinja with `trim_blocks`, `lstrip_blocks`, loop controls, Python's
/// string methods, `raise_exception` and Python's `json.dumps` as `tojson`. There is no `strftime_now`.
///
/// What a template may cost is limited for loops, macros, strings, output, the depth of its source and of its values.
/// It is not limited where the engine does not count: lists and maps that a template doubles dozens of times, by adding
/// them to themselves or by nesting two of each in the next. A template made to do harm can hang or fill the memory with
/// that, so templates deserve the trust that their model's weights get.
#[derive(Debug)]
pub struct Template {
    env: Environment<'static>,
}

/// A conversation in the form that the engine reads, before conversion.
struct Variables<'a> {
    list: Vec<(&'a str, Json, Trust)>,
    messages: Vec<Vec<(&'a str, Json, Trust)>>,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// [`Error::TemplateSyntax`] with the line, or [`Error::TemplateTooLarge`].
    pub fn new(source: &str) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE {
            return Err(Error::TemplateTooLarge { bytes: source.len(), limit: MAX_SOURCE });
        }
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.expect("these settings name no delimiter"));
        env.set_recursion_limit(MAX_RECURSION);
        env.set_debug(false);
        python::extend(&mut env);
        python::add_to_json(&mut env, None);
        // As in the reference, a line ends with `\n` whatever the file says.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        bounds::check(&source)?;
        stack::with_stack(COMPILER_STACK, move || {
            env.add_template_owned(NAME, source).map_err(|error| describe(&error))?;
            Ok(Self { env })
        })
    }

    /// The rendered text, in which a user's `<|im_end|>` looks like the template's own. It is what the reference library
    /// renders, for people to read; prompts for a model come from [`render`](Self::render).
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_text(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        self.render_marked(&Variables::new(input), None)
    }

    /// The rendered text with the knowledge of which control tokens the template wrote and which only look so.
    ///
    /// No string of a message, a tool or an extra variable can spell a control token, with one exception: an assistant's
    /// content and reasoning may hold tokens that are not marked special, such as `</think>` and `<tool_call>`.
    /// A user's text that spells one is also invisible to the template's own searches for it.
    ///
    /// # Errors
    /// If the template refuses the conversation, fails, or is stopped at a limit.
    pub fn render(&self, input: &RenderInput<'_>, tokenizer: &Tokenizer) -> Result<Prompt, Error> {
        let variables = Variables::new(input);
        let source = self.env.get_template(NAME).map_err(|error| describe(&error))?.source().to_owned();
        let mut texts = vec![source.as_str()];
        variables.collect_texts(&mut texts);
        let Some(marker) = Marker::new(tokenizer.added(), texts.into_iter()) else {
            let reason = "the conversation uses all private characters of Unicode".to_owned();
            return Err(Error::TemplateLimit { line: 0, reason });
        };
        Ok(marker.unmarked(&self.render_marked(&variables, Some(&marker))?))
    }

    fn render_marked(&self, variables: &Variables<'_>, marker: Option<&Marker<'_>>) -> Result<String, Error> {
        let mut texts = Vec::new();
        variables.collect_texts(&mut texts);
        let size: usize = texts.iter().map(|text| text.len()).sum();
        let (fuel, stack_size, output) = allowance(variables.messages.len(), size);
        let mut env = self.env.clone();
        env.set_fuel(Some(fuel));
        if let Some(marker) = marker {
            python::add_to_json(&mut env, Some(marker.mark()));
        }
        let mut output = Limited::new(output);
        stack::with_stack(stack_size, || {
            let context = variables.context(marker)?;
            let template = env.get_template(NAME).map_err(|error| describe(&error))?;
            let outcome = template.render_captured_to(context, &mut output).map(drop);
            output.check()?;
            outcome.map_err(|error| describe(&error))
        })?;
        output.into_text()
    }
}

/// Name under which the engine knows the template.
const NAME: &str = "chat";

/// What a rendering of `messages` with `size` bytes of text may cost: the fuel, the stack in bytes, the output in bytes.
pub(crate) fn allowance(messages: usize, size: usize) -> (u64, usize, usize) {
    let fuel = BASE_FUEL + FUEL_PER_MESSAGE * messages + size / (64 / PASSES);
    let fuel = fuel.min(MAX_FUEL);
    (fuel as u64, fuel * STACK_PER_FUEL, BASE_OUTPUT + OUTPUT_FACTOR * size)
}

/// An output that refuses to grow beyond its limit.
pub(crate) struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl Limited {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Whether all that was written found room.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.bytes.len() > self.limit {
            let reason = format!("it wrote more than {} bytes", self.limit);
            return Err(Error::TemplateLimit { line: 0, reason });
        }
        Ok(())
    }

    pub(crate) fn into_text(self) -> Result<String, Error> {
        String::from_utf8(self.bytes)
            .map_err(|_| Error::TemplateFailed { line: 0, reason: "the output is not UTF-8".to_owned() })
    }
}

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > self.limit {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> Variables<'a> {
    fn new(input: &'a RenderInput<'_>) -> Self {
        let mut list: Vec<(&str, Json, Trust)> = Vec::new();
        for (name, value) in &input.extra {
            let trust = if name.ends_with("_token") { Trust::Full } else { Trust::None };
            list.push((name, value.clone(), trust));
        }
        list.push(("tools", input.tools.cloned().unwrap_or_default(), Trust::None));
        list.push(("add_generation_prompt", Json::Bool(input.add_generation_prompt), Trust::Full));
        list.extend(input.enable_thinking.map(|thinks| ("enable_thinking", Json::Bool(thinks), Trust::Full)));
        if !input.extra.contains_key("documents") {
            list.push(("documents", Json::Null, Trust::Full));
        }
        let with_trust = |message: &'a Message| {
            let trust = |name: &str| match name {
                "content" if message.role == "assistant" => Trust::Markup,
                "reasoning_content" => Trust::Markup,
                _ => Trust::None,
            };
            message.fields().into_iter().map(|(name, value)| (name, value, trust(name))).collect()
        };
        Self { list, messages: input.messages.iter().map(with_trust).collect() }
    }

    fn collect_texts<'t>(&'t self, texts: &mut Vec<&'t str>) {
        for (_, value, _) in self.list.iter().chain(self.messages.iter().flatten()) {
            collect_texts(value, texts);
        }
    }

    fn context(&self, marker: Option<&Marker<'_>>) -> Result<Value, Error> {
        let mut messages = Vec::with_capacity(self.messages.len());
        for (index, fields) in self.messages.iter().enumerate() {
            messages.push(to_map(fields, marker).ok_or_else(|| {
                let reason = format!("nested more than {MAX_DEPTH} levels deep");
                Error::Message { index, reason }
            })?);
        }
        let too_deep = || Error::TemplateLimit {
            line: 0,
            reason: format!("tools or variables nested more than {MAX_DEPTH} levels deep"),
        };
        let mut pairs = Vec::with_capacity(self.list.len() + 1);
        for (name, value, trust) in &self.list {
            pairs.push(((*name).to_owned(), to_value(value, *trust, marker, 0).ok_or_else(too_deep)?));
        }
        pairs.push(("messages".to_owned(), Value::from(messages)));
        Ok(Value::from_pairs(pairs))
    }
}

fn collect_texts<'a>(value: &'a Json, texts: &mut Vec<&'a str>) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Json::String(text) => texts.push(text),
            Json::Array(items) => rest.extend(items),
            Json::Object(fields) => {
                texts.extend(fields.keys().map(String::as_str));
                rest.extend(fields.values());
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

fn to_map(fields: &[(&str, Json, Trust)], marker: Option<&Marker<'_>>) -> Option<Value> {
    let pair =
        |(name, value, trust): &(&str, Json, Trust)| Some(((*name).to_owned(), to_value(value, *trust, marker, 1)?));
    let pairs: Option<Vec<(String, Value)>> = fields.iter().map(pair).collect();
    pairs.map(Value::from_pairs)
}

/// The engine's form of a JSON value, `None` if it is nested too deeply.
fn to_value(json: &Json, trust: Trust, marker: Option<&Marker<'_>>, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let text = |text: &str| marker.map_or_else(|| text.to_owned(), |marker| marker.marked(text, trust).into_owned());
    Some(match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(value) => Value::from(text(value)),
        Json::Array(items) => {
            let items: Option<Vec<Value>> = items.iter().map(|item| to_value(item, trust, marker, depth + 1)).collect();
            Value::from(items?)
        }
        Json::Object(fields) => {
            let pair = |(name, value): (&String, &Json)| Some((text(name), to_value(value, trust, marker, depth + 1)?));
            let pairs: Option<Vec<(String, Value)>> = fields.iter().map(pair).collect();
            Value::from_pairs(pairs?)
        }
    })
}

/// Finds what a person needs in the engine's error.
fn describe(error: &minijinja::Error) -> Error {
    let line = error.line().unwrap_or(0);
    let mut source = Some(error as &dyn std::error::Error);
    while let Some(cause) = source {
        if let Some(python::Raised(message)) = cause.downcast_ref() {
            return Error::TemplateRaised { message: clipped(message), line };
        }
        if cause.downcast_ref::<minijinja::Error>().is_some_and(|cause| cause.kind() == ErrorKind::OutOfFuel) {
            let reason = "it does more work than its conversation warrants".to_owned();
            return Error::TemplateLimit { line, reason };
        }
        source = cause.source();
    }
    let said = clipped(error.detail().unwrap_or_default());
    match error.kind() {
        ErrorKind::SyntaxError => Error::TemplateSyntax { line, reason: said },
        ErrorKind::BadEscape => Error::TemplateSyntax { line, reason: "bad escape in a string".to_owned() },
        _ if said.contains("recursion limit") => Error::TemplateLimit { line, reason: said },
        kind if said.is_empty() => Error::TemplateFailed { line, reason: kind.to_string() },
        kind => Error::TemplateFailed { line, reason: format!("{kind}: {said}") },
    }
}

/// The beginning of what may be a whole document.
pub(crate) fn clipped(text: &str) -> String {
    const LIMIT: usize = 500;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
