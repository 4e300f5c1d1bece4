//! Prompts for other programs to compare with: a template's file is the argument, conversations go in on standard input
//! as JSON; their texts come out as a JSON list.
//!
//! `cargo run -p kinglet-text --example render -- TEMPLATE < CONVERSATIONS.json`
//!
//! A conversation is an object with `messages`, `add_generation_prompt` and, if it is set, `enable_thinking`.

use std::error::Error;
use std::io::{self, Write};

use kinglet_text::{Message, RenderInput, Template};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: render TEMPLATE < CONVERSATIONS.json")?;
    let template = Template::new(&std::fs::read_to_string(path)?)?;
    let conversations: Value = serde_json::from_reader(io::stdin().lock())?;
    let conversations = conversations.as_array().ok_or("standard input is no list")?;
    let texts: Vec<String> =
        conversations.iter().map(|conversation| render(&template, conversation)).collect::<Result<_, _>>()?;
    Ok(writeln!(io::stdout().lock(), "{}", Value::from(texts))?)
}

fn render(template: &Template, conversation: &Value) -> Result<String, Box<dyn Error>> {
    let messages = Message::list_from_json(&conversation["messages"])?;
    let input = RenderInput {
        messages: &messages,
        add_generation_prompt: conversation["add_generation_prompt"].as_bool().unwrap_or(false),
        enable_thinking: conversation["enable_thinking"].as_bool(),
        ..RenderInput::default()
    };
    Ok(template.render_text(&input)?)
}
