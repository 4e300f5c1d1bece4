//! A template and a conversation go in, the prompt that the official runtime would render comes out; no runtime is
//! called, the same engine in the same version is set up as it does.

use super::rewrite::rewritten;
use crate::template::{Limited, MAX_DEPTH, MAX_SOURCE, allowance, bounds, clipped, stack};
use crate::{Content, Error, Message, RenderInput};
use minijinja_2::value::Value;
use minijinja_2::{Environment, ErrorKind};
use serde::Serialize as _;
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::io;

/// A template as the official runtime compiles it.
///
/// What the runtime hands to a template differs from what the reference library does: every content is a list of
/// parts, `tools` is absent where there are none, and `bos_token` and `eos_token` are empty. Its dialect differs too:
/// there are no methods, except those that it finds by searching the source, `none` as a test is true for what is
/// undefined and false for null, and `true` and `none` are printed in lower case.
///
/// The runtime knows the time, as `now` and through `strftime_now`. Here `now` is 0 and the function fails, for a prompt
/// that depends on them cannot be held to another one. A field of a message that is null is taken as absent.
///
/// Work and output are limited as for [`Template`](crate::Template), and products are refused. But this engine does not
/// count the bytes of the strings that a template joins, so a template made to do harm can fill the memory. [`prove`]
/// renders by the reference rules first, which do count, and comes here only if that ended.
///
/// [`prove`]: super::prove
#[derive(Debug)]
pub struct RuntimeTemplate {
    source: String,
}

impl RuntimeTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    /// [`Error::TemplateSyntax`] with the line, [`Error::TemplateTooLarge`], or [`Error::TemplateLimit`] if it holds a
    /// product.
    pub fn new(source: &str) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE {
            return Err(Error::TemplateTooLarge { bytes: source.len(), limit: MAX_SOURCE });
        }
        let source = rewritten(source);
        bounds::check_without_product(&source)?;
        stack::with_stack(COMPILER_STACK, || {
            let environment = environment();
            environment.template_from_str(&source).map(drop).map_err(|error| describe(&error))
        })?;
        Ok(Self { source })
    }

    /// The prompt that the runtime renders for a whole conversation. All content is taken as it stands.
    ///
    /// # Errors
    /// If the template refuses the conversation, fails, or is stopped at a limit.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        let size = size_of(input)?;
        let (fuel, stack_size, output) = allowance(input.messages.len(), size);
        let mut output = Limited::new(output);
        stack::with_stack(stack_size, || {
            let mut environment = environment();
            environment.set_fuel(Some(fuel));
            let template = environment.template_from_named_str(NAME, &self.source).map_err(|error| describe(&error))?;
            let outcome = template.render_to_write(Value::from_serialize(context(input)), &mut output).map(drop);
            output.check()?;
            outcome.map_err(|error| describe(&error))
        })?;
        output.into_text()
    }
}

/// Name under which the runtime's engine knows the template; it has no ending, so nothing is escaped.
const NAME: &str = "template";
/// Stack for compiling what is within [`bounds`].
const COMPILER_STACK: usize = 16 << 20;

/// What a template said with `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_keep_trailing_newline(true);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_debug(false);
    environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja_2::Error> {
        let error = minijinja_2::Error::new(ErrorKind::InvalidOperation, message.clone());
        Err(error.with_source(Raised(message)))
    });
    environment.add_function("strftime_now", |_: &str| -> Result<Value, minijinja_2::Error> {
        Err(minijinja_2::Error::new(ErrorKind::InvalidOperation, "strftime_now depends on the time"))
    });
    environment.add_test("none", |value: Value| value.is_undefined());
    environment.add_filter("tojson", to_json);
    environment.add_filter("lstrip", |text: Cow<'_, str>, chars: Option<Cow<'_, str>>| match chars {
        Some(chars) => text.trim_start_matches(|char| chars.contains(char)).to_owned(),
        None => text.trim_start().to_owned(),
    });
    environment.add_filter("rstrip", |text: Cow<'_, str>, chars: Option<Cow<'_, str>>| match chars {
        Some(chars) => text.trim_end_matches(|char| chars.contains(char)).to_owned(),
        None => text.trim_end().to_owned(),
    });
    environment
}

/// JSON in one line with a blank after each comma and colon.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

fn to_json(value: Value) -> Result<String, minijinja_2::Error> {
    let invalid = |reason: String| minijinja_2::Error::new(ErrorKind::InvalidOperation, reason);
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    value.serialize(&mut serializer).map_err(|error| invalid(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))
}

/// How many bytes of text the variables hold, if none of them nests too deeply.
fn size_of(input: &RenderInput<'_>) -> Result<usize, Error> {
    let fields = input.messages.iter().flat_map(|message| {
        let parts = match &message.content {
            Some(Content::Parts(parts)) => parts.as_slice(),
            _ => &[],
        };
        let parts = parts.iter().flat_map(|part| part.0.values());
        parts.chain(message.tool_calls.iter().flatten()).chain(message.extra.values())
    });
    let mut rest: Vec<(&Json, usize)> =
        fields.chain(input.tools).chain(input.extra.values()).map(|json| (json, 0)).collect();
    let texts = |message: &Message| message.text().len() + message.reasoning_content.as_deref().map_or(0, str::len);
    let mut size: usize = input.messages.iter().map(texts).sum();
    while let Some((json, depth)) = rest.pop() {
        if depth > MAX_DEPTH {
            let reason = format!("messages, tools or variables nested more than {MAX_DEPTH} levels deep");
            return Err(Error::TemplateLimit { line: 0, reason });
        }
        match json {
            Json::String(text) => size += text.len(),
            Json::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Json::Object(fields) => {
                size += fields.keys().map(String::len).sum::<usize>();
                rest.extend(fields.values().map(|field| (field, depth + 1)));
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    Ok(size)
}

/// The variables of a template, in the form that the runtime gives them.
fn context(input: &RenderInput<'_>) -> Json {
    let mut variables = Map::new();
    let last = input.messages.len().saturating_sub(1);
    let messages = input.messages.iter().enumerate();
    let messages = messages.map(|(index, message)| Json::Object(fields(message, index == last))).collect();
    variables.insert("messages".to_owned(), messages);
    if let Some(tools) = input.tools.filter(|tools| !tools.is_null()) {
        variables.insert("tools".to_owned(), tools.clone());
    }
    variables.insert("add_generation_prompt".to_owned(), Json::Bool(input.add_generation_prompt));
    variables.insert("now".to_owned(), Json::from(0));
    for name in ["bos_token", "eos_token"] {
        variables.insert(name.to_owned(), Json::from(""));
    }
    // Unlike for the reference library, these replace what has the same name.
    variables.extend(input.extra.clone());
    if let Some(thinks) = input.enable_thinking {
        variables.insert("enable_thinking".to_owned(), Json::Bool(thinks));
    }
    Json::Object(variables)
}

/// A message with its content as a list. The one that is sent passes through maps that sort their fields by name, on
/// which a template depends only if it prints a whole message or part.
fn fields(message: &Message, is_sent: bool) -> Map<String, Json> {
    let mut fields = match serde_json::to_value(message) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    };
    if is_sent {
        fields.values_mut().for_each(Json::sort_all_objects);
        fields.sort_keys();
    }
    if let Some(content) = fields.get_mut("content")
        && let Json::String(text) = content
    {
        *content = serde_json::json!([{"type": "text", "text": text}]);
    }
    fields
}

/// Finds what a person needs in the engine's error.
fn describe(error: &minijinja_2::Error) -> Error {
    let line = error.line().unwrap_or(0);
    let mut source = Some(error as &dyn std::error::Error);
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return Error::TemplateRaised { message: clipped(message), line };
        }
        if cause.downcast_ref::<minijinja_2::Error>().is_some_and(|cause| cause.kind() == ErrorKind::OutOfFuel) {
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
