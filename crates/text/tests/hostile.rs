//! Tokenizers and templates that were made to do harm end in an error, soon, and without a panic.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use kinglet_text::{Error, Message, RenderInput, Specials, Template, Tokenizer};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TINY: &[u8] = include_bytes!("../../../fixtures/text/tokenizer-640.json");

fn tiny() -> Value {
    serde_json::from_slice(TINY).unwrap()
}

fn refusal(tokenizer: &Value) -> String {
    Tokenizer::from_json(tokenizer.to_string().as_bytes()).unwrap_err().to_string()
}

/// Applies one change to the tiny tokenizer.
fn changed(pointer: &str, value: Value) -> Value {
    let mut json = tiny();
    *json.pointer_mut(pointer).unwrap() = value;
    json
}

#[test]
fn what_is_no_tokenizer_is_refused_with_the_reason() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "tokenizer.json: EOF while parsing a value at line 1 column 0"),
        (b"{", "tokenizer.json: EOF while parsing an object"),
        (b"[]", "tokenizer.json: invalid length 0, expected an object with a model"),
        (b"{}", "tokenizer.json: model is absent, expected a BPE model"),
        (b"{\"model\": {}}", "tokenizer.json: model.type is absent, expected BPE"),
        (
            b"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}",
            "tokenizer.json: model.type is WordPiece, expected BPE",
        ),
        (b"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0.5]]}}", "tokenizer.json: model.type is Unigram"),
        (b"{\"model\": {\"type\": \"BPE\"}}", "tokenizer.json: missing field `vocab`"),
        (b"\xff\xfe", "tokenizer.json: expected value at line 1 column 1"),
    ];
    for (json, expected) in cases {
        let error = Tokenizer::from_json(json).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{}: {error}", String::from_utf8_lossy(json));
    }
    let nested = "[".repeat(100_000);
    assert!(matches!(Tokenizer::from_json(nested.as_bytes()), Err(Error::TokenizerJson(_))));
}

#[test]
fn a_file_beyond_the_size_limit_is_not_even_parsed() {
    let zeros = vec![0; (64 << 20) + 1];
    let start = Instant::now();
    assert!(matches!(Tokenizer::from_json(&zeros), Err(Error::TokenizerTooLarge { .. })));
    assert!(start.elapsed() < Duration::from_millis(100));
}

#[test]
fn patterns_and_added_tokens_are_limited_in_number_and_length() {
    let split = json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated", "invert": false});
    let level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let steps =
        |count: usize| -> Vec<Value> { vec![split.clone(); count].into_iter().chain([level.clone()]).collect() };
    let read = |path: &str, value: Value| {
        Tokenizer::from_json(changed(path, value).to_string().as_bytes()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read("/pre_tokenizer/pretokenizers", json!(steps(16))), Ok(()));
    let error = read("/pre_tokenizer/pretokenizers", json!(steps(17))).expect_err("one too many");
    assert!(error.contains("17 split patterns, more than 16"), "{error}");
    for pattern in ["((((a{1000}){1000}){1000}){1000}){1000}", "a{99999999999999999999}", "a{1,2000}b{2000}"] {
        let error = read("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!(pattern)).expect_err(pattern);
        assert!(error.contains("repetitions come to more than 1048576"), "{error}");
    }
    let honest = r"\p{N}{1,3}|[^\s\p{L}]{2,}|a{200}b{200}|x{ 1}";
    assert_eq!(read("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!(honest)), Ok(()));
    let token = |id: usize| json!({"id": id, "content": format!("<{id:01000}>"), "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    let many: Vec<Value> = (0..5000).map(|n| token(614 + n)).collect();
    let error = read("/added_tokens", json!(many)).expect_err("too many");
    assert!(error.contains("added_tokens: they hold"), "{error}");
}

#[test]
fn steps_that_are_not_supported_are_refused_by_name() {
    let cases = [
        ("/normalizer", json!({"type": "Lowercase"}), "normalizer.type is Lowercase"),
        ("/pre_tokenizer", json!(null), "pre_tokenizer is absent"),
        ("/pre_tokenizer", json!({"type": "Whitespace"}), "pre_tokenizer is ending with Whitespace"),
        ("/pre_tokenizer", json!({"type": "Sequence", "pretokenizers": []}), "pre_tokenizer.pretokenizers is empty"),
        ("/pre_tokenizer/pretokenizers/0", json!({"type": "Digits"}), "pre_tokenizer.type is Digits"),
        ("/pre_tokenizer/pretokenizers/0/behavior", json!("Removed"), "pre_tokenizer.Split.behavior is Removed"),
        (
            "/pre_tokenizer/pretokenizers/0/pattern",
            json!({"String": " "}),
            "pre_tokenizer.Split.pattern is not a regular",
        ),
        ("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!("("), "pre_tokenizer.Split.pattern: "),
        ("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!("(".repeat(9999)), "pre_tokenizer.Split.pattern: "),
        (
            "/pre_tokenizer/pretokenizers/0/pattern/Regex",
            json!("a".repeat(20_000)),
            "pre_tokenizer.Split.pattern: the pattern holds",
        ),
        (
            "/pre_tokenizer/pretokenizers/0/pattern/Regex",
            json!("((a{1000}){1000}){1000}"),
            "pre_tokenizer.Split.pattern: ",
        ),
        ("/pre_tokenizer/pretokenizers/1/add_prefix_space", json!(true), "pre_tokenizer.ByteLevel is of another kind"),
        ("/decoder", json!(null), "decoder is absent"),
        ("/decoder", json!({"type": "WordPiece"}), "decoder.type is WordPiece"),
        ("/model/dropout", json!(0.1), "model.dropout is set"),
        ("/model/byte_fallback", json!(true), "model.byte_fallback is true"),
        ("/model/continuing_subword_prefix", json!("##"), "model is marking the places"),
        ("/added_tokens/0/lstrip", json!(true), "added_tokens is \"<|endoftext|>\" with"),
        ("/added_tokens/0/normalized", json!(true), "added_tokens is \"<|endoftext|>\" with"),
    ];
    for (pointer, value, expected) in cases {
        let error = refusal(&changed(pointer, value));
        assert!(error.starts_with(&format!("tokenizer.json: {expected}")), "{pointer}: {error}");
    }
}

#[test]
fn a_tokenizer_that_contradicts_itself_is_refused() {
    let cases = [
        ("/model/merges/0", json!(["i", "zzz"]), "model.merges: Token `zzz` out of vocabulary"),
        (
            "/model/merges/0",
            json!(["i", "<|im_start|>"]),
            "model.merges: merge 0 of \"i\" and \"<|im_start|>\" is longer than every token",
        ),
        ("/model/merges/0", json!(["Ġrepresentation", "Ġrepresentation"]), "model.merges: merge 0 of "),
        ("/model/merges/0", json!("a b c"), "invalid value: string \"a b c\", expected a merge of two tokens"),
        ("/model/merges/0", json!(1), "invalid type: integer `1`, expected a merge of two tokens"),
        ("/model/merges", json!({}), "invalid type: map"),
        ("/model/vocab", json!([]), "invalid type: sequence"),
        ("/model/vocab/!", json!(-1), "invalid value: integer `-1`"),
        ("/model/vocab/!", json!(4_294_967_296u64), "invalid value: integer `4294967296`"),
        ("/model/vocab/!", json!(4_294_967_295u32), "model.vocab: 640 tokens have ids up to 4294967295"),
        ("/model/vocab/!", json!(1), "model.vocab: id 1 is given to two tokens"),
        ("/model/vocab", json!({}), "added_tokens: \"<|endoftext|>\" has id 607, its place in the file gives it 0"),
        ("/added_tokens/1/id", json!(9), "added_tokens: \"<|im_start|>\" has id 9, its place in the file gives it 608"),
        ("/added_tokens/1/content", json!("<|endoftext|>"), "added_tokens: \"<|endoftext|>\" is listed twice"),
        ("/added_tokens/1/content", json!(""), "added_tokens: the content with id 608 holds 0 bytes"),
        ("/added_tokens/1/content", json!("x".repeat(2000)), "added_tokens: the content with id 608 holds 2000 bytes"),
        ("/added_tokens", json!({}), "invalid type: map"),
    ];
    for (pointer, value, expected) in cases {
        let error = refusal(&changed(pointer, value));
        assert!(error.starts_with(&format!("tokenizer.json: {expected}")), "{pointer}: {error}");
    }
}

#[test]
fn a_vocabulary_without_a_token_for_some_byte_is_refused_since_text_would_vanish() {
    let mut json = tiny();
    let id = json["model"]["vocab"].as_object_mut().unwrap().remove("Ġ").unwrap();
    json["model"]["vocab"]["spare"] = id;
    json["model"]["merges"] = json!([]);
    assert_eq!(refusal(&json), "tokenizer.json: model.vocab: byte 0x20 has no ordinary token");
    let mut json = tiny();
    let id = json["model"]["vocab"]["!"].clone();
    json["added_tokens"].as_array_mut().unwrap().push(json!({"id": id, "content": "!", "special": true}));
    assert_eq!(refusal(&json), "tokenizer.json: model.vocab: byte 0x21 has no ordinary token");
}

#[test]
fn a_control_token_that_is_also_in_the_vocabulary_still_cannot_come_from_text() {
    let mut json = tiny();
    for (place, token) in json["added_tokens"].as_array().unwrap().clone().iter().enumerate() {
        json["model"]["vocab"][token["content"].as_str().unwrap()] = json!(607 + place);
    }
    json["model"]["vocab"]["<|"] = json!(640);
    json["model"]["merges"].as_array_mut().unwrap().push(json!(["<|", "im_start|>"]));
    json["model"]["vocab"]["im_start|>"] = json!(641);
    json["model"]["ignore_merges"] = json!(true);
    json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!("[^ ]+| +");
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).unwrap();
    for text in ["<|im_start|>", "<|im_end|>", "<think>"] {
        assert_eq!(tokenizer.encode(text, Specials::Parse).unwrap().len(), 1, "{text}");
        let ids = tokenizer.encode(text, Specials::AsText).unwrap();
        assert!(ids.iter().all(|id| !(607..640).contains(id)), "{text}: {ids:?}");
        assert_eq!(tokenizer.decode(&ids, true), text);
    }
}

#[test]
fn a_pattern_with_exponential_backtracking_ends() {
    let json = changed("/pre_tokenizer/pretokenizers/0/pattern/Regex", json!("(?:(?=a)a+)+(?!a)b|.(?=.)|\\s*"));
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).unwrap();
    let start = Instant::now();
    let _ = tokenizer.encode(&"a".repeat(200), Specials::Parse);
    assert!(start.elapsed() < Duration::from_secs(5));
}

proptest::proptest! {
    #[test]
    fn broken_tokenizers_never_panic(changes in proptest::collection::vec((0usize..33_563, 0u8..=255), 1..4), cut in 0usize..100_000) {
        let mut json = TINY.to_vec();
        for (place, byte) in changes {
            json[place % TINY.len()] = byte;
        }
        json.truncate(cut);
        if let Ok(tokenizer) = Tokenizer::from_json(&json) {
            let text = "Hello <|im_end|> 17\n";
            let ids = tokenizer.encode(text, Specials::Parse).unwrap();
            let _ = tokenizer.decode(&ids, false);
        }
    }
}

fn outcome(source: &str) -> Result<String, Error> {
    let messages = [Message::new("user", "Hi")];
    Template::new(source)?.render_text(&RenderInput { messages: &messages, ..RenderInput::default() })
}

/// Runs in a thread with the stack that threads have by default, whatever runs the tests.
fn ends_in_an_error(name: &str, source: String) -> Error {
    let start = Instant::now();
    let run = move || outcome(&source).map(|text| text.len());
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
    let error = thread.join().unwrap_or_else(|_| panic!("{name} panicked")).expect_err(name);
    assert!(start.elapsed() < Duration::from_secs(20), "{name} took {:?}", start.elapsed());
    assert!(error.to_string().len() < 1000, "{name}: {} bytes of message", error.to_string().len());
    error
}

#[test]
fn templates_that_would_not_end_are_stopped() {
    let doubling = |start: &str, step: &str, end: &str| {
        format!(
            "{{% set n = namespace(x={start}) %}}{{% for i in range(1000) %}}{{% set n.x = {step} %}}{{% endfor %}}{end}"
        )
    };
    let cases = [
        ("nested loops", "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}".to_owned()),
        ("a great range", "{% for a in range(999999999999) %}{% endfor %}".to_owned()),
        ("a macro that calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned()),
        ("two macros that call each other", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}".to_owned()),
        ("a recursive loop", "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned()),
        ("doubled strings", doubling("'x'", "n.x ~ n.x", "{{ n.x }}")),
        ("doubled strings by addition", doubling("'x'", "n.x + n.x", "")),
        ("doubled strings by join", doubling("'x'", "[n.x, n.x]|join", "")),
        ("doubled strings by method", doubling("'x'", "n.x.join([n.x, n.x])", "")),
        ("doubled strings by replace", doubling("'xx'", "n.x|replace('x', n.x)", "")),
        ("shared lists as JSON", doubling("[1]", "[n.x, n.x]", "{{ n.x|tojson }}")),
        ("shared lists as text", doubling("[1]", "[n.x, n.x]", "{{ n.x }}")),
        ("shared maps as JSON", doubling("{}", "{'a': n.x, 'b': n.x}", "{{ n.x|tojson }}")),
        ("shared maps as text", doubling("{}", "{'a': n.x, 'b': n.x}", "{{ n.x|string }}")),
        ("a great product", "{{ 'x' * 99999999999 }}".to_owned()),
        ("a list of a great product", "{{ ([1] * 99999999999)|tojson }}".to_owned()),
        ("a wide indent", "{{ 'a\nb'|indent(9999999999) }}".to_owned()),
        ("a wide field", "{{ '{:>3999999999}'.format(1) }}".to_owned()),
        ("a wide format", "{{ '%999999999d'|format(1) }}".to_owned()),
        ("endless output", "{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}".to_owned()),
        ("raising at length", "{{ raise_exception('x' * 1000000) }}".to_owned()),
    ];
    for (name, source) in cases {
        ends_in_an_error(name, source);
    }
}

#[test]
fn templates_that_nest_deeply_are_refused_without_a_stack_overflow() {
    let around =
        |open: &str, middle: &str, close: &str| format!("{}{middle}{}", open.repeat(10_000), close.repeat(10_000));
    let cases = [
        ("parentheses", format!("{{{{ {} }}}}", around("(", "1", ")"))),
        ("lists", format!("{{{{ {} }}}}", around("[", "1", "]"))),
        ("conditions", around("{%if 1%}", "x", "{%endif%}")),
        ("loops", around("{%for a in[]%}", "x", "{%endfor%}")[..200_000].to_owned()),
        ("macros", around("{%macro f()%}", "x", "{%endmacro%}")[..200_000].to_owned()),
    ];
    for (name, source) in cases {
        let error = ends_in_an_error(name, source);
        assert!(matches!(error, Error::TemplateSyntax { .. }), "{name}: {error}");
    }
    assert!(matches!(Template::new(&"x".repeat(300_000)), Err(Error::TemplateTooLarge { .. })));
}

/// The parser limits what nests, not what is chained, though a chain makes as deep a tree.
#[test]
fn long_chains_are_refused_and_shorter_ones_do_not_overflow_the_stack() {
    let links = [
        "1: + 1",
        "1:<1",
        "x:.a",
        "x:[1]",
        "x:()",
        "x:|e",
        "x: is f",
        "1: if 1",
        "1: if 1 else 1",
        "1:~1",
        "1: or 1",
        "1:**1",
    ];
    let chain = |link: &str, count: usize| {
        let (first, link) = link.split_once(':').unwrap();
        format!("{{{{ {first}{} }}}}", link.repeat(count))
    };
    let mut sources: Vec<[String; 2]> = links.iter().map(|link| [chain(link, 240), chain(link, 1000)]).collect();
    sources.push([995, 200_000].map(|count| format!("{{{{ {}1 }}}}", "-".repeat(count))));
    sources.push([995, 50_000].map(|count| format!("{{{{ {}1 }}}}", "not ".repeat(count))));
    sources.push([199, 20_000].map(|count| format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(count))));
    for [short, long] in sources {
        let start = Instant::now();
        let _ = outcome(&short);
        assert!(!matches!(outcome(&short), Err(Error::TemplateSyntax { .. })), "{short:.20}: {:?}", outcome(&short));
        assert!(matches!(outcome(&long), Err(Error::TemplateSyntax { line: 1, .. })), "{long:.20}");
        assert!(start.elapsed() < Duration::from_secs(2), "{short:.20}: {:?}", start.elapsed());
    }
}

#[test]
fn values_that_nest_as_deeply_as_the_work_allows_do_not_overflow_the_stack() {
    let steps =
        ["[n.x]", "{'a': n.x}", "(n.x,)", "[[[[[[[[[[[[[[[[[[[[n.x]]]]]]]]]]]]]]]]]]]]", "dict(a=n.x)", "[1] + [n.x]"];
    let uses = [
        "{{ n.x }}",
        "{{ n.x|tojson }}",
        "{{ n.x ~ 'a' }}",
        "{{ n.x == [n.x] }}",
        "{{ n.x in [n.x] }}",
        "{{ [n.x, [n.x]]|sort }}",
        "{{ [n.x, n.x]|unique|list }}",
        "{{ n.x|string }}",
        "{{ '%s'|format(n.x) }}",
        "{{ '{}'.format(n.x) }}",
        "{{ n.x|join }}",
        "{{ raise_exception(n.x) }}",
        "{{ n.x.y.z }}",
        "{{ {n.x: 1} }}",
        "",
    ];
    let messages: Vec<Message> = (0..400).map(|_| Message::new("user", "Hi")).collect();
    for step in steps {
        for end in uses {
            // From more than the work allows down to what it surely allows.
            for turns in [30_000, 15_000, 1_000] {
                let source = format!(
                    "{{% set n = namespace(x=[]) %}}{{% for i in range({turns}) %}}{{% set n.x = {step} %}}{{% endfor %}}{end}"
                );
                let input = RenderInput { messages: &messages, ..RenderInput::default() };
                let outcome = Template::new(&source).unwrap().render_text(&input);
                assert!(outcome.as_ref().err().is_none_or(|error| error.to_string().len() < 3000), "{step} {end}");
            }
        }
    }
}

#[test]
fn conversations_that_nest_deeply_are_refused() {
    let mut deep = json!(1);
    for _ in 0..2000 {
        deep = json!([deep]);
    }
    let template = Template::new("{{ messages|tojson }}{{ tools }}").unwrap();
    let mut messages = vec![Message::new("user", "Hi")];
    let input = RenderInput { messages: &messages, tools: Some(&deep), ..RenderInput::default() };
    assert!(matches!(template.render_text(&input), Err(Error::TemplateLimit { .. })));
    messages.push(Message { tool_calls: Some(vec![deep]), ..Message::new("assistant", "") });
    let input = RenderInput { messages: &messages, ..RenderInput::default() };
    assert!(matches!(template.render_text(&input), Err(Error::Message { index: 1, .. })));
}

#[test]
fn an_honest_long_conversation_is_within_the_limits() {
    let source = "{% for m in messages[::-1] %}{% if m.role == 'user' %}{{ m.content|trim|length }}{% endif %}{% endfor %}\
                  {% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content|trim + '<|im_end|>\n' }}{% endfor %}";
    let messages: Vec<Message> =
        (0..5000).map(|turn| Message::new(["user", "assistant"][turn % 2], "word ".repeat(200))).collect();
    let input = RenderInput { messages: &messages, ..RenderInput::default() };
    assert!(Template::new(source).unwrap().render_text(&input).unwrap().len() > 5_000_000);
    let one = [Message::new("user", "x".repeat(5_000_000))];
    let input = RenderInput { messages: &one, ..RenderInput::default() };
    assert!(Template::new(source).unwrap().render_text(&input).unwrap().len() > 5_000_000);
}

proptest::proptest! {
    #[test]
    fn broken_templates_never_panic(source in "(\\{%|%\\}|\\{\\{|\\}\\}|\\{#|#\\}|[a-z0-9 .|'\"()\\[\\]:~+*-]|for|in|if|endif|endfor|set|macro|messages|é){0,30}") {
        let _ = outcome(&source);
    }
}

#[test]
fn a_template_that_breaks_its_engine_is_an_error() {
    // Some of these are errors of the engine's own where arithmetic is not checked for overflow.
    let sources = [
        "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
        "{{ range(9223372036854775807, -9223372036854775808, -1)|list|length }}",
        "{{ 'abc'[::-9223372036854775808] }}",
    ];
    for source in sources {
        let rendered = Template::new(source).and_then(|template| template.render_text(&RenderInput::default()));
        if let Err(error) = rendered {
            assert!(error.to_string().starts_with("chat template"), "{error}");
        }
    }
    let cycle = Template::new(sources[0]).and_then(|template| template.render_text(&RenderInput::default()));
    assert!(cycle.is_err());
}
