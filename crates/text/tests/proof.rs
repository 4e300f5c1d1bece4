//! The emulation of the official runtime's renderer against what that runtime rendered, and what is proved with it.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use kinglet_text::proof::{self, Edit, Failure, Rendering, RuntimeTemplate};
use kinglet_text::{Error, Message, RenderInput, Template};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What the official runtime rendered.
const RUNTIME: &str = include_str!("../../../fixtures/text/runtime.json");
/// What it has to render.
const PROMPTS: &str = include_str!("../../../fixtures/text/prompts.json");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn runtime_shows(source: &str, case: &Value) -> Result<String, Error> {
    let messages = Message::list_from_json(&case["messages"]).unwrap();
    let extra = case["extra"].as_object().unwrap().clone();
    let input = RenderInput { messages: &messages, add_generation_prompt: true, extra, ..RenderInput::default() };
    RuntimeTemplate::new(source)?.render(&input)
}

#[test]
fn the_emulation_renders_what_the_official_runtime_renders() {
    let goldens: Value = serde_json::from_str(RUNTIME).unwrap();
    let mut wrong = Vec::new();
    for case in goldens["cases"].as_array().unwrap() {
        let source = case["source"].as_str().unwrap();
        let shown = runtime_shows(source, case);
        let agrees = match (case.get("text"), &shown) {
            (Some(expected), Ok(text)) => expected == text,
            (None, Err(_)) => true,
            // The one thing that the runtime does and the emulation does not.
            (Some(_), Err(Error::TemplateLimit { reason, .. })) => reason.contains("product") && source.contains(" * "),
            _ => false,
        };
        if !agrees {
            wrong.push(format!("{case}\n  shows {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A template with the beginning of what is said about it, of the cure, and of the edits that make it fit.
const UNFIT: [(&str, &str, &str, &[Edit]); 16] = [
    (
        "{% for m in messages %}{{ '<' ~ m.content ~ '>' }}{% endfor %}",
        "case 'user': the official runtime prints the list of parts into the prompt (byte 1: expected \"What is",
        "the runtime passes every content as a list",
        &[Edit::JoinParts],
    ),
    (
        "{% for m in messages %}{{ m['content'].strip() + '\\n' }}{% endfor %}",
        "case 'user': the official runtime prints the list of parts",
        "the runtime passes every content as a list",
        &[Edit::JoinParts],
    ),
    (
        "{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}",
        "case 'user': the official runtime refuses it: chat template, line 1: invalid operation: tried to use +",
        "the runtime passes every content as a list",
        &[Edit::JoinParts],
    ),
    (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% endif %}{% endfor %}",
        "case 'user': the official runtime drops the text of the user message (byte 0",
        "the runtime passes every content as a list",
        &[Edit::JoinParts],
    ),
    (
        "{% for m in messages %}{{ m.role if m.role == 'user' else m.content }}{% endfor %}",
        "case 'user, assistant, user': the official runtime prints the list of parts",
        "the runtime passes every content as a list",
        &[Edit::JoinParts],
    ),
    (
        "{% for m in messages %}{{ m.get('role') }}{% endfor %}",
        "case 'user': the official runtime refuses it: chat template, line 1: unknown method: map has no method named get",
        "write x['key'] for x.get('key')",
        &[Edit::GetByIndex],
    ),
    (
        "{% for m in messages %}{{ m.get('content') }}{% endfor %}",
        "case 'user': the official runtime refuses it",
        "write x['key'] for x.get('key')",
        &[Edit::GetByIndex, Edit::JoinParts],
    ),
    (
        "{% for m in messages %}{{ m.role.upper() }}{% endfor %}",
        "case 'user': the official runtime refuses it: chat template, line 1: unknown method",
        "the runtime knows no methods but",
        &[],
    ),
    (
        "{% for m in messages %}{% break %}{% endfor %}",
        "case 'any': the official runtime refuses it: chat template, line 1: unknown statement break",
        "the runtime has no break",
        &[],
    ),
    (
        "\n{{ 'a-b'.split('-')[1] }}",
        "case 'any': the official runtime refuses it: chat template, line 2: unexpected `[`",
        "the runtime turns calls of methods into filters, and compiles: {{ 'a-b' | split('-')[1] }}",
        &[],
    ),
    (
        "{{ true }}",
        "case 'user': the official runtime renders another prompt (byte 0: expected \"True\", found \"true\")",
        "",
        &[],
    ),
    (
        "{{ messages|length }}\n",
        "case 'user': the official runtime renders another prompt (byte 1: expected \"\", found \"\\n\")",
        "remove the newline at the end",
        &[],
    ),
    (
        "{{ 2 * 3 }}",
        "case 'any': the official runtime refuses it: chat template, line 1: stopped, products",
        "use the template",
        &[],
    ),
    (
        "{{ strftime_now('%Y') }}",
        "case 'user': the reference rules fail: chat template, line 1: unknown function",
        "",
        &[],
    ),
    ("{% if %}", "case 'any': the reference rules fail: chat template, line 1: unexpected end of block", "", &[]),
    (
        "{{ raise_exception('no user query') }}",
        "case 'user': the reference rules fail: the chat template refused the conversation: no user query (line 1)",
        "add a message with role user",
        &[],
    ),
];

#[test]
fn templates_that_the_official_runtime_renders_otherwise_are_refused_with_the_case_and_the_cure() {
    for (source, expected, hint, edits) in UNFIT {
        let refusal = proof::prove(source).expect_err(source);
        let said = refusal.to_string();
        assert!(said.starts_with(&format!("chat template, {expected}")), "{source}: {said}");
        let cure = refusal.hint().unwrap_or_default();
        assert!(cure.starts_with(hint) && cure.is_empty() == hint.is_empty(), "{source}: {cure}");
        match proof::stock(source) {
            Ok(stock) => assert_eq!(stock.edits, edits, "{source}"),
            Err(error) => assert!(edits.is_empty() && error == refusal, "{source}: {error}"),
        }
    }
}

#[test]
fn failures_have_their_kinds() {
    let kind = |source| match proof::prove(source).unwrap_err().failure {
        Failure::Reference(_) => "reference",
        Failure::Drop { .. } => "drop",
        Failure::Raise(_) => "raise",
        Failure::Leak(_) => "leak",
        Failure::Differs(_) => "differs",
        _ => "other",
    };
    let kinds: Vec<&str> = UNFIT.iter().map(|(source, ..)| kind(source)).collect();
    let mut expected = vec!["leak", "leak", "raise", "drop", "leak"];
    expected.extend(["raise"; 5]);
    expected.extend(["differs", "differs", "raise", "reference", "reference", "reference"]);
    assert_eq!(kinds, expected);
}

#[test]
fn an_edit_that_changes_what_the_reference_rules_give_is_not_made() {
    // By index, what is missing is undefined and no longer none.
    let source = "{% for m in messages %}{{ m.get('name') is none }}{% endfor %}";
    let refusal = proof::stock(source).unwrap_err();
    assert!(matches!(refusal.failure, Failure::Raise(_)), "{refusal}");
}

#[test]
fn what_both_rules_agree_on_and_is_wrong_all_the_same_is_a_warning() {
    assert!(proof::prove(proof::SIMPLE).unwrap().warnings().is_empty());
    let refuses = "{%- for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}\
                   {% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}{% endfor %}";
    let proof = proof::prove(refuses).unwrap();
    assert_eq!(proof.refused, ["system, user", "system and three turns"]);
    assert_eq!(proof.warnings().len(), 2);
    let knows_model_only = "{%- for m in messages %}{% if m.role in ['user', 'model'] %}\
                            {% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}{% endif %}{% endfor %}";
    let proof = proof::prove(knows_model_only).unwrap();
    assert_eq!(proof.forgotten, ["assistant", "system"]);
    assert!(proof.second_turn.is_none() && proof.continuation.is_some());
    assert_eq!(proof.warnings().len(), 3, "{:?}", proof.warnings());
}

#[test]
fn a_template_that_knows_lists_only_is_held_to_what_it_makes_of_lists() {
    let source = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}";
    let stock = proof::stock(source).unwrap();
    assert!(stock.proof.has_parts && stock.proof.forgotten.is_empty() && stock.edits.is_empty());
    assert!(!proof::prove(proof::SIMPLE).unwrap().has_parts);
}

fn render(source: &str, messages: &[Message], enable_thinking: Option<bool>) -> Result<String, Error> {
    let input = RenderInput { messages, add_generation_prompt: true, enable_thinking, ..RenderInput::default() };
    Template::new(source)?.render_text(&input)
}

#[test]
fn the_simple_template_reads_strings_and_lists_and_refuses_what_it_cannot_render() {
    let list = |json: Value| Message::list_from_json(&json).unwrap();
    let plain = list(json!([
        {"role": "system", "content": " s "}, {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "c", "reasoning_content": "why"}, {"role": "user", "content": ""},
    ]));
    let parts = list(json!([
        {"role": "system", "content": [{"type": "text", "text": " s "}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "<think>\nwhy\n</think>\n\nc"}]},
        {"role": "user", "content": null},
    ]));
    let expected = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nab<|im_end|>\n\
                    <|im_start|>assistant\n<think>\nwhy\n</think>\n\nc<|im_end|>\n<|im_start|>user\n<|im_end|>\n\
                    <|im_start|>assistant\n<think>\n";
    let runtime = RuntimeTemplate::new(proof::SIMPLE).unwrap();
    for messages in [&plain, &parts] {
        for (enable_thinking, end) in [(None, "\n</think>\n\n"), (Some(false), "\n</think>\n\n"), (Some(true), "")] {
            let expected = format!("{expected}{end}");
            assert_eq!(render(proof::SIMPLE, messages, enable_thinking).unwrap(), expected);
            let input =
                RenderInput { messages, add_generation_prompt: true, enable_thinking, ..RenderInput::default() };
            assert_eq!(runtime.render(&input).unwrap(), expected);
        }
    }
    let tools = json!([{"type": "function"}]);
    let image = list(json!([{"role": "user", "content": [{"type": "image"}]}]));
    let tool = [Message::new("tool", "x")];
    let refused = [
        (RenderInput { messages: &plain, tools: Some(&tools), ..RenderInput::default() }, "this template has no tools"),
        (RenderInput { messages: &image, ..RenderInput::default() }, "this template renders text only"),
        (RenderInput { messages: &tool, ..RenderInput::default() }, "this template has the roles"),
    ];
    for (input, words) in refused {
        for outcome in [Template::new(proof::SIMPLE).unwrap().render_text(&input), runtime.render(&input)] {
            assert!(
                matches!(&outcome, Err(Error::TemplateRaised { message, .. }) if message.starts_with(words)),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn the_simple_template_renders_text_as_the_demo_models_own() {
    let demo = std::fs::read_to_string(repository().join("models/demo/chat_template.jinja")).unwrap();
    let proof = proof::prove(proof::SIMPLE).unwrap();
    for Rendering { case, text } in &proof.renderings {
        let input = RenderInput {
            messages: &case.messages,
            add_generation_prompt: case.add_generation_prompt,
            enable_thinking: case.enable_thinking,
            ..RenderInput::default()
        };
        assert_eq!(&Template::new(&demo).unwrap().render_text(&input).unwrap(), text, "{}", case.name);
    }
}

#[test]
fn the_stock_templates_are_equal_as_they_stand_and_end_after_one_turn() {
    for name in ["qwen3.5-nonthinking-default", "qwen3.5-thinking-default"] {
        let path = format!("../shared/golden/chat_template/{name}.jinja");
        let Ok(source) = std::fs::read_to_string(repository().join(&path)) else {
            eprintln!("SKIPPED: {path} is not here");
            continue;
        };
        let stock = proof::stock(&source).unwrap();
        assert_eq!((stock.edits, stock.source), (vec![], source));
        let difference = stock.proof.second_turn.unwrap();
        assert_eq!(
            difference.at,
            "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n".len()
        );
        assert!(difference.expected.starts_with("<think>\n\n</think>\n\nParis"), "{difference}");
        assert!(difference.found.starts_with("Paris"), "{difference}");
        assert!(stock.proof.refused.is_empty() && stock.proof.forgotten.is_empty());
    }
}

#[test]
fn the_prompts_for_the_official_runtime_are_those_of_the_proof() {
    let fixture: Value = serde_json::from_str(PROMPTS).unwrap();
    assert_eq!(fixture["runtime"], proof::RUNTIME);
    let templates = fixture["templates"].as_array().unwrap();
    assert_eq!(templates[0]["source"], proof::SIMPLE);
    for template in templates {
        let proof = proof::prove(template["source"].as_str().unwrap()).unwrap();
        assert_eq!(template["cases"], serde_json::to_value(&proof.renderings).unwrap(), "{}", template["name"]);
    }
}

#[test]
fn templates_that_would_not_end_are_refused() {
    let doubled = "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
    let cases = [
        "{{ 'x' * 99999999999 }}",
        "{% if false %}{{ 'x' * 99999999999 }}{% endif %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        doubled,
        "{{ 'a\nb'|indent(9999999999) }}",
    ];
    for source in cases {
        let start = std::time::Instant::now();
        assert!(proof::stock(source).is_err(), "{source}");
        assert!(start.elapsed().as_secs() < 20, "{source}");
    }
    let nested = (0..2000).fold(json!(1), |nested, _| json!([nested]));
    let input = RenderInput { tools: Some(&nested), ..RenderInput::default() };
    assert!(matches!(RuntimeTemplate::new("{{ tools }}").unwrap().render(&input), Err(Error::TemplateLimit { .. })));
}
