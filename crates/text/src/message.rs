//! Chat messages as OpenAI-like JSON go in, the values that templates read come out; nothing is rendered here.

use crate::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
///
/// Fields that this crate does not know are kept and reach the template under their own names.
///
/// ```
/// use kinglet_text::Message;
///
/// let json = serde_json::json!([{"role": "user", "content": "Hi", "name": "ada"}]);
/// let messages = Message::list_from_json(&json)?;
/// assert_eq!(messages[0].text(), "Hi");
/// assert_eq!(messages[0].extra["name"], "ada");
/// # Ok::<(), kinglet_text::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, or whatever else the template knows.
    pub role: String,
    /// What is said; absent for an assistant that only calls tools.
    #[serde(default)]
    pub content: Option<Content>,
    /// What an assistant thought before it spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls of an assistant, each `{"function": {"name": …, "arguments": …}}` or the inner object alone. Arguments
    /// given as a string that holds a JSON object are passed to the template as that object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<Value>>,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Texts, images and videos in their order.
    Parts(Vec<Part>),
}

/// One part of a message's content: `{"type": "text", "text": …}`, `{"type": "image", …}` and so on, as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Part(pub Map<String, Value>);

impl Part {
    /// A part that holds text.
    pub fn text(text: impl Into<String>) -> Self {
        let fields = [("type", "text".to_owned()), ("text", text.into())];
        Self(fields.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect())
    }

    /// A part that stands for an image; its pixels do not pass through the template.
    pub fn image() -> Self {
        Self(Map::from_iter([("type".to_owned(), Value::String("image".to_owned()))]))
    }

    /// `text`, `image`, `image_url`, `video` or whatever `type` says; empty where there is none.
    pub fn kind(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// The text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        self.0.get("text").and_then(Value::as_str)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Message {
    /// A message with a role and a content, which is mostly text.
    pub fn new(role: impl Into<String>, content: impl Into<Content>) -> Self {
        Self { role: role.into(), content: Some(content.into()), ..Self::default() }
    }

    /// The text of the content, that of several parts joined as it stands.
    pub fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => parts.iter().filter_map(Part::as_text).collect(),
        }
    }

    /// Reads a JSON list of messages.
    ///
    /// # Errors
    /// [`Error::Message`] with the first message that is not an object, has no role, or has a field of another type.
    pub fn list_from_json(list: &Value) -> Result<Vec<Self>, Error> {
        let Some(list) = list.as_array() else {
            return Err(Error::Message { index: 0, reason: "messages are not a list".to_owned() });
        };
        list.iter().enumerate().map(|(index, message)| Self::from_json(index, message)).collect()
    }

    fn from_json(index: usize, message: &Value) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Message { index, reason: reason.to_owned() };
        let fields = message.as_object().ok_or_else(|| wrong("not an object"))?;
        match fields.get("role") {
            Some(Value::String(_)) => {}
            Some(_) => return Err(wrong("role is not a string")),
            None => return Err(wrong("role is missing")),
        }
        match fields.get("content") {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(Value::Array(parts)) if parts.iter().all(Value::is_object) => {}
            Some(_) => return Err(wrong("content is neither a string nor a list of parts")),
        }
        Self::deserialize(message).map_err(|error| wrong(&error.to_string()))
    }

    /// The message as templates read it.
    pub(crate) fn fields(&self) -> Vec<(&str, Value)> {
        let content = match &self.content {
            None => Value::Null,
            Some(Content::Text(text)) => Value::String(text.clone()),
            Some(Content::Parts(parts)) => parts.iter().map(|part| Value::Object(part.0.clone())).collect(),
        };
        let mut fields = vec![("role", Value::String(self.role.clone())), ("content", content)];
        fields.extend(self.reasoning_content.iter().map(|text| ("reasoning_content", Value::String(text.clone()))));
        if let Some(calls) = &self.tool_calls {
            fields.push(("tool_calls", calls.iter().map(with_object_arguments).collect()));
        }
        fields.extend(self.extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
        fields
    }
}

/// The call with its arguments as an object, where they came as a string that holds one.
fn with_object_arguments(call: &Value) -> Value {
    let mut call = call.clone();
    let holder =
        if call.get("function").is_some_and(Value::is_object) { call.get_mut("function") } else { Some(&mut call) };
    if let Some(arguments) = holder.and_then(|holder| holder.get_mut("arguments"))
        && let Value::String(text) = arguments
        && let Ok(object @ Value::Object(_)) = serde_json::from_str(text)
    {
        *arguments = object;
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_return_to_the_json_that_they_came_from() {
        let json = json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "image": "x.png"}], "name": "n"},
            {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [{"function": {"name": "f"}}]},
            {"role": "tool", "content": "t", "tool_call_id": "7"},
        ]);
        let messages = Message::list_from_json(&json).unwrap();
        assert_eq!(serde_json::to_value(&messages).unwrap(), json);
        assert_eq!(messages[0].text(), "a");
        assert_eq!(messages[2].extra["tool_call_id"], "7");
    }

    #[test]
    fn a_message_of_another_shape_is_named_by_its_place() {
        let cases = [
            (json!([{"role": "user"}, {"content": "x"}]), "messages[1]: role is missing"),
            (json!([{"role": 1}]), "messages[0]: role is not a string"),
            (json!(["x"]), "messages[0]: not an object"),
            (json!({"role": "user"}), "messages[0]: messages are not a list"),
            (json!([{"role": "user", "content": 1}]), "messages[0]: content is neither a string nor a list of parts"),
            (
                json!([{"role": "user", "content": ["x"]}]),
                "messages[0]: content is neither a string nor a list of parts",
            ),
            (json!([{"role": "a", "tool_calls": {}}]), "messages[0]: invalid type: map, expected a sequence"),
        ];
        for (json, expected) in cases {
            assert_eq!(Message::list_from_json(&json).unwrap_err().to_string(), expected, "{json}");
        }
    }

    #[test]
    fn arguments_in_a_string_become_an_object_if_they_are_one() {
        let cases = [
            (
                json!({"function": {"arguments": "{\"b\": 1, \"a\": 2}"}}),
                json!({"function": {"arguments": {"b": 1, "a": 2}}}),
            ),
            (json!({"name": "f", "arguments": "{}"}), json!({"name": "f", "arguments": {}})),
            (json!({"function": {"arguments": "[1]"}}), json!({"function": {"arguments": "[1]"}})),
            (json!({"function": {"arguments": "{"}}), json!({"function": {"arguments": "{"}})),
            (json!("x"), json!("x")),
        ];
        for (call, expected) in cases {
            assert_eq!(with_object_arguments(&call).to_string(), expected.to_string());
        }
    }
}
