//! Every rule: one model that breaks it and nothing else, and a model that breaks none.

mod made;

use kinglet_lint::Severity::{Fault, Warning};
use kinglet_lint::{Severity, rules};
use made::graph::I64;
use made::{F32, Graph, I8, I32, Made, broken, floats, group, integers};

/// A rule, how bad a finding is, and what is done to the clean model.
type Case = (&'static str, Severity, Change);
type Change = fn(&mut Made);

const CASES: &[Case] = &[
    ("unreadable", Fault, |made| made.damage_model = true),
    ("unreadable", Fault, |made| made.llm = None),
    ("guard-on-token-0", Fault, |made| guard(made, 0)),
    ("guard-on-pad-token", Fault, |made| guard(made, 6)),
    ("int8-gates", Fault, |made| made.decode().retype("in_proj_b", I8, &[4, 8], vec![1; 32])),
    ("grouped-heads", Fault, |made| delta_rule(made, "gated_delta_update", 2)),
    ("executor-metadata", Fault, |made| made.states = None),
    ("state-buffers", Fault, |made| made.states.as_mut().expect("stated").push(("kv_cache_r_9".into(), 5))),
    ("state-buffers", Fault, |made| made.states.as_mut().expect("stated").truncate(3)),
    ("state-buffers", Fault, |made| made.decode().remove_state("kv_cache_c_0")),
    ("cache-length", Fault, |made| made.llm().max_num_tokens = 33),
    ("cache-length", Fault, |made| made.decode().retype("decode_mask", F32, &[1, 1, 1, 31], vec![])),
    ("cache-length", Fault, |made| made.llm().max_num_tokens = u64::MAX),
    ("pad-axis", Fault, |made| pad(made, &[1, 2, 8], &[0, 0, 1, 0, 0, 0])),
    ("pad-axis", Warning, |made| pad(made, &[1, 2, 2, 8], &[0, 0, 0, 1, 0, 0, 0, 0])),
    ("pad-axis", Warning, |made| pad(made, &[1, 2, 8], &[])),
    ("stop-tokens", Fault, |made| made.llm().stops = vec![6]),
    ("stop-tokens", Warning, |made| made.llm().stops = vec![7]),
    ("stop-tokens", Fault, |made| made.llm().stops.clear()),
    ("greedy-sampler", Fault, |made| made.llm().sampler_kind = Some(3)),
    ("start-token", Warning, |made| made.llm().start = Some("<s>")),
    ("generation-prompt", Warning, |made| made.llm().template = Some("{{ messages }}<|im_end|>")),
    ("generation-prompt", Warning, |made| (made.llm().template, made.llm().model_prefix) = (None, Some(""))),
    ("activation-type", Warning, |made| made.items.truncate(1)),
    ("activation-type", Warning, |made| made.items[1].1 = "fp16"),
    ("rank-above-4", Warning, |made| _ = operator(made, 22, &[&[1, 4]], F32, &[1, 1, 1, 2, 2])),
    ("scalar-in-broadcast", Warning, |made| _ = operator(made, 0, &[&[1, 4], &[]], F32, &[1, 4])),
    ("scalar-in-broadcast", Warning, |made| _ = operator(made, 57, &[&[], &[1, 4]], F32, &[1, 4])),
    ("rank-2-constant", Warning, |made| {
        let x = made.decode().tensor("x", F32, &[3, 4], vec![]);
        let constant = made.decode().constant("c", F32, &[1, 4], floats(4));
        made.decode().operator(18, &[x, constant], F32, &[3, 4]);
    }),
    ("broadcast-to", Warning, |made| _ = operator(made, 130, &[&[1, 4], &[2]], F32, &[3, 4])),
    ("int64-arithmetic", Warning, |made| _ = operator(made, 0, &[&[4], &[4]], I64, &[4])),
    ("int64-arithmetic", Warning, |made| {
        let table = made.decode().tensor("x", F32, &[8, 4], vec![]);
        let index = made.decode().tensor("i", I64, &[2], vec![]);
        made.decode().operator(36, &[table, index], F32, &[2, 4]);
    }),
    ("gather-nd", Warning, |made| _ = operator(made, 107, &[&[4, 4], &[2, 1]], F32, &[2, 4])),
    ("topk", Warning, |made| _ = operator(made, 48, &[&[1, 8], &[]], F32, &[1, 2])),
    ("stablehlo-operator", Warning, |made| _ = operator(made, 196, &[], F32, &[4])),
    ("custom-operator", Warning, |made| _ = made.decode().custom("FlexErf", &[], F32, &[4])),
    ("tensor-names", Warning, |made| made.decode().rename(0, "n".repeat(2_000_001))),
    ("weights-stored-twice", Warning, |made| {
        for (n, graph) in made.graphs.iter_mut().enumerate() {
            graph.constant(&format!("copy{n}"), F32, &[128, 128], floats(128 * 128));
        }
    }),
    ("prefill-ladder", Fault, |made| _ = made.graphs.remove(0)),
    ("prefill-ladder", Fault, |made| made.decode().key = "generate".into()),
];

/// An operator between tensors of these shapes, all of one type.
fn operator(made: &mut Made, number: u32, inputs: &[&[u32]], element: i8, output: &[u32]) -> usize {
    let graph = made.decode();
    let inputs: Vec<usize> = inputs.iter().map(|shape| graph.tensor("x", element, shape, vec![])).collect();
    graph.operator(number, &inputs, element, output)
}

/// Padding told by a token id, on the way to the recurrent state.
fn guard(made: &mut Made, token: i32) {
    let graph = made.decode();
    let (tokens, state) = (graph.find("decode_tokens"), graph.output_of("kv_cache_r_0"));
    let id = graph.constant("id", I32, &[1, 1, 1], integers(&[token]));
    let valid = graph.operator(72, &[tokens, id], 6, &[1, 1]);
    let valid = graph.operator(53, &[valid], F32, &[1, 1]);
    let state = graph.operator(18, &[state, valid], F32, &[1, 4, 16, 16]);
    graph.output("kv_cache_r_0", state);
}

fn delta_rule(made: &mut Made, name: &str, key_heads: u32) {
    let graph = made.decode();
    let x = graph.tensor("q", F32, &[1, key_heads, 1, 16], vec![]);
    let v = graph.tensor("v", F32, &[1, 4, 1, 16], vec![]);
    graph.custom(name, &[x, x, v], F32, &[1, 4, 1, 16]);
}

/// A PAD by constant amounts, or by computed ones where there are none.
fn pad(made: &mut Made, shape: &[u32], amounts: &[i32]) {
    let graph = made.decode();
    let x = graph.tensor("x", F32, shape, vec![]);
    let amounts = graph.tensor("amounts", I32, &[shape.len() as u32, 2], integers(amounts));
    graph.operator(34, &[x, amounts], F32, shape);
}

#[test]
fn a_clean_model_breaks_no_rule() {
    let report = Made::clean().lint();
    assert_eq!(broken(&report), [], "{report:#?}");
    let notes: Vec<&str> = report.groups.iter().map(|group| group.rule).collect();
    assert_eq!(notes, ["state-buffers", "prefill-ladder"], "these say what is there");
    assert_eq!(group(&report, "prefill-ladder").findings[0].message, "prefill comes in chunks of 8");
    assert_eq!(group(&report, "state-buffers").findings[0].message, "4 state buffers: 2 recurrent, 2 of positions");
}

#[test]
fn each_rule_is_broken_by_a_model_that_breaks_no_other() {
    for (n, (rule, severity, change)) in CASES.iter().enumerate() {
        let report = Made::with(change).lint();
        let mut found = broken(&report);
        // The delta rule's operator is a custom one too.
        found.retain(|(_, found)| (*rule, *found) != ("grouped-heads", "custom-operator"));
        assert_eq!(found, [(*severity, *rule)], "case {n}: {report:#?}");
    }
}

#[test]
fn every_rule_has_a_case() {
    for rule in rules() {
        assert!(CASES.iter().any(|(known, ..)| *known == rule.id), "{}", rule.id);
        assert!(rule.meaning.len() > 20, "{}", rule.id);
    }
}

#[test]
fn what_looks_like_a_breach_and_is_none_is_left_alone() {
    let cases: &[(&str, Change)] = &[
        ("a cast from i64", |made| _ = operator(made, 53, &[&[4]], I64, &[4])),
        ("a view of i64", |made| _ = operator(made, 22, &[&[4]], I64, &[2, 2])),
        ("padding of the last axis", |made| pad(made, &[1, 2, 8], &[0, 0, 0, 0, 1, 1])),
        ("padding by nothing", |made| pad(made, &[1, 2, 8], &[0; 6])),
        ("two scalars", |made| _ = operator(made, 0, &[&[], &[]], F32, &[])),
        ("rank 2 by rank 2, both computed", |made| _ = operator(made, 18, &[&[3, 4], &[1, 4]], F32, &[3, 4])),
        ("a composite's number", |made| _ = operator(made, 203, &[&[4]], F32, &[4])),
        ("a token comparison that touches no state", |made| {
            let graph = made.decode();
            let tokens = graph.find("decode_tokens");
            let id = graph.constant("id", I32, &[1, 1, 1], integers(&[0]));
            let seen = graph.operator(72, &[tokens, id], 6, &[1, 1]);
            graph.output("seen", seen);
        }),
        ("ids that are clamped before they are looked up", |made| {
            let graph = made.decode();
            let (tokens, table) = (graph.find("decode_tokens"), graph.find("embed"));
            let least = graph.constant("least", I32, &[1, 1, 1], integers(&[0]));
            let ids = graph.operator(55, &[tokens, least], I32, &[1, 1]);
            let row = graph.operator(7, &[ids, table], F32, &[1, 1, 8]);
            let state = graph.output_of("kv_cache_r_0");
            let state = graph.operator(0, &[state, row], F32, &[1, 4, 16, 16]);
            graph.output("kv_cache_r_0", state);
        }),
        ("int8 weights that make no gate", |made| {
            let graph = made.decode();
            let x = graph.tensor("x", F32, &[1, 1, 8], vec![]);
            let weight = graph.constant("w", I8, &[4, 8], vec![1; 32]);
            graph.operator(9, &[x, weight], F32, &[1, 1, 4]);
        }),
        ("int8 weights of a wide gate", |made| {
            let graph = made.decode();
            let x = graph.tensor("x", F32, &[1, 1, 8], vec![]);
            let weight = graph.constant("w", I8, &[5, 8], vec![1; 40]);
            let y = graph.operator(9, &[x, weight], F32, &[1, 1, 5]);
            graph.operator(14, &[y], F32, &[1, 1, 5]);
        }),
        ("names up to the limit", |made| made.decode().rename(0, "n".repeat(1_990_000))),
        ("constants that differ in the middle", |made| {
            for (n, graph) in made.graphs.iter_mut().enumerate() {
                let mut data = floats(128 * 128);
                data[20_000] = n as u8;
                graph.constant(&format!("near{n}"), F32, &[128, 128], data);
            }
        }),
        ("a start token that the template writes", |made| {
            made.llm().start = Some("<s>");
            made.llm().template = Some("<s>{{ messages }}<|im_end|>{{ add_generation_prompt }}");
        }),
        ("fewer positions stated than there are", |made| made.llm().max_num_tokens = 31),
        ("affixes in place of a template", |made| {
            (made.llm().template, made.llm().model_prefix) = (None, Some("model: "));
        }),
    ];
    for (what, change) in cases {
        let report = Made::with(change).lint();
        assert_eq!(broken(&report), [], "{what}: {report:#?}");
    }
}

#[test]
fn a_grouped_operator_is_a_fault_and_an_equal_one_only_custom() {
    let report = Made::with(|made| delta_rule(made, "gated_delta_update", 4)).lint();
    assert_eq!(broken(&report), [(Warning, "custom-operator")]);
}

#[test]
fn where_no_gpu_may_run_it_its_rules_are_notes() {
    let change = |made: &mut Made| {
        pad(made, &[1, 2, 8], &[0, 0, 1, 0, 0, 0]);
        made.items.push(("backend_constraint", "cpu"));
    };
    assert_eq!(broken(&Made::with(change).lint()), []);
    let both = |made: &mut Made| {
        change(made);
        made.items[2].1 = "cpu,gpu";
    };
    assert_eq!(broken(&Made::with(both).lint()), [(Fault, "pad-axis")]);
}

#[test]
fn a_finding_says_where_it_is() {
    let report = Made::with(|made| guard(made, 6)).lint();
    let group = group(&report, "guard-on-pad-token");
    assert_eq!((group.count, &group.by_signature[..]), (1, &[("decode".to_owned(), 1)][..]));
    let finding = &group.findings[0];
    let place = &finding.place;
    assert_eq!(
        place.to_string(),
        "section 3 (TFLiteModel), decode, subgraph 1, node 10 NOT_EQUAL, tensor decode_tokens i32[1, 1]"
    );
    assert_eq!(place.section.as_ref().and_then(|s| s.model_type.as_deref()), Some("prefill_decode"));
    assert!(finding.message.contains("token 6 (`<|endoftext|>`)"), "{}", finding.message);
    assert!(group.hint.is_some_and(|hint| hint.contains("positions")));
}

#[test]
fn the_text_of_an_ordinary_token_is_told_too() {
    let report = Made::with(|made| guard(made, 0)).lint();
    let message = &group(&report, "guard-on-token-0").findings[0].message;
    assert!(message.contains("token 0 (`!`)") && message.contains("1 recurrent state"), "{message}");
}

#[test]
fn repeated_findings_are_counted_and_the_first_are_kept() {
    let report = Made::with(|made| {
        for graph in &mut made.graphs {
            let x = graph.tensor("x", F32, &[1, 4], vec![]);
            for _ in 0..100 {
                graph.operator(130, &[x], F32, &[3, 4]);
            }
        }
    });
    let report = report.lint();
    let group = group(&report, "broadcast-to");
    assert_eq!(group.count, 200);
    assert_eq!(group.by_signature, [("prefill_8".to_owned(), 100), ("decode".to_owned(), 100)]);
    assert_eq!(group.findings.len() as u64, 2 * kinglet_lint::KEPT);
    assert_eq!(report.count(Warning), 200);
}

#[test]
fn a_bundle_without_a_language_model_has_nothing_to_answer_for() {
    let mut graph = Graph::new("encode");
    let x = graph.input("x", F32, &[1, 4]);
    graph.output("y", x);
    let report = Made::with(|made| {
        made.graphs = vec![graph];
        made.items = vec![("model_type", "tf_lite_vision_encoder")];
        made.states = None;
    });
    assert_eq!(broken(&report.lint()), []);
}
