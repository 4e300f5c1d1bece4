//! Models made to waste time or to break the reader: the lint answers, in time that grows with the file.

mod made;

use std::time::{Duration, Instant};

use kinglet_blob::Blob;
use kinglet_bundle::Bundle;
use kinglet_lint::{Severity, lint};
use made::{F32, I8, I32, Made, group, integers};

/// Generous: each of these takes well under a second. A square would take minutes.
const LONG: Duration = Duration::from_secs(30);

fn timed(what: &str, made: &Made) -> kinglet_lint::Report {
    let bundle = made.bundle();
    let begun = Instant::now();
    let report = lint(&bundle);
    assert!(begun.elapsed() < LONG, "{what}: {:?}", begun.elapsed());
    report
}

#[test]
fn many_operators_that_break_every_rule_are_counted() {
    let made = Made::with_decode(|graph| {
        let (x, s) = (graph.tensor("x", 4, &[1, 1, 1, 1, 4], vec![]), graph.tensor("s", 4, &[], vec![]));
        for _ in 0..100_000 {
            graph.operator(0, &[x, s], 4, &[1, 1, 1, 1, 4]);
        }
    });
    let report = timed("operators", &made);
    for rule in ["rank-above-4", "scalar-in-broadcast", "int64-arithmetic"] {
        let group = group(&report, rule);
        assert!(group.count >= 100_000, "{rule}: {}", group.count);
        assert_eq!(group.findings.len() as u64, kinglet_lint::KEPT, "{rule}");
    }
}

#[test]
fn many_signatures_of_one_large_subgraph_are_looked_at_once() {
    let made = Made::with_decode(|graph| {
        let tokens = graph.find("decode_tokens");
        let id = graph.constant("id", I32, &[1], integers(&[0]));
        for _ in 0..20_000 {
            graph.operator(72, &[tokens, id], 6, &[1, 1]);
        }
        graph.aliases = (0..5_000).map(|n| format!("prefill_{n}")).collect();
    });
    timed("signatures", &made);
}

#[test]
fn gate_projections_whose_outputs_everybody_reads_end_soon() {
    let made = Made::with_decode(|graph| {
        let x = graph.tensor("x", F32, &[1, 1, 8], vec![]);
        let weight = graph.constant("w", I8, &[4, 8], vec![1; 32]);
        let shared = graph.tensor("shared", F32, &[1, 1, 4], vec![]);
        for _ in 0..20_000 {
            graph.operator(18, &[shared, shared], F32, &[1, 1, 4]);
        }
        for _ in 0..20_000 {
            graph.operator_into(9, &[x, weight], shared);
        }
    });
    timed("gates", &made);
}

#[test]
fn tensors_that_depend_on_themselves_are_followed_once() {
    let made = Made::with_decode(|graph| {
        let tokens = graph.find("decode_tokens");
        let id = graph.constant("id", I32, &[1], integers(&[0]));
        let (a, b) = (graph.tensor("a", 6, &[1], vec![]), graph.tensor("b", 6, &[1], vec![]));
        graph.operator_into(72, &[tokens, id], a);
        graph.operator_into(18, &[a, b], b);
        graph.operator_into(18, &[b, a], a);
        graph.output("kv_cache_r_0", b);
    });
    let report = timed("cycle", &made);
    assert_eq!(group(&report, "guard-on-token-0").count, 1);
}

#[test]
fn a_long_name_that_all_tensors_share_is_read_once() {
    let made = Made::with_decode(|graph| {
        for _ in 0..50_000 {
            graph.operator(130, &[0], F32, &[3, 4]);
        }
        graph.rename(0, "n".repeat(4_000_000));
    });
    let report = timed("names", &made);
    let finding = &group(&report, "broadcast-to").findings[0];
    assert!(finding.place.tensor.as_ref().is_some_and(|tensor| tensor.name.len() < 100));
    let longest = group(&report, "tensor-names").findings[0].place.tensor.as_ref().expect("named").name.clone();
    assert_eq!(longest, format!("...{}", "n".repeat(80)));
}

#[test]
fn constants_that_look_alike_are_compared_a_few_times() {
    let made = Made::with_decode(|graph| {
        for n in 0..400u32 {
            let mut data = vec![0; 1 << 16];
            data[10_000..10_004].copy_from_slice(&n.to_le_bytes());
            graph.constant(&format!("c{n}"), I8, &[1 << 16], data);
        }
    });
    let report = timed("constants", &made);
    assert!(report.of("weights-stored-twice").next().is_none());
}

#[test]
fn any_damage_to_the_model_is_answered() {
    let sound = Made::clean();
    let bundle = sound.bundle();
    let sections = bundle.sections().iter();
    let sections: Vec<_> = sections.map(|section| (section.kind, section.data.to_vec())).collect();
    let mut read = 0;
    for (which, (_, data)) in sections.iter().enumerate() {
        for at in 0..data.len() {
            for value in [0x00, 0xff, data[at] ^ 0x04] {
                let mut damaged = data.clone();
                damaged[at] = value;
                read += usize::from(answers(&sections, which, damaged));
            }
        }
        for len in (0..data.len()).step_by(7) {
            answers(&sections, which, data[..len].to_vec());
        }
    }
    assert!(read > 1000, "most damage leaves a model that is looked at: {read}");
}

/// Whether the bundle with one section replaced can be read to the end.
fn answers(sections: &[(kinglet_bundle::SectionKind, Vec<u8>)], which: usize, damaged: Vec<u8>) -> bool {
    let numbers = [5, 9, 6, 3];
    let items = vec![("model_type", "tf_lite_prefill_decode"), ("prefer_activation_type", "fp32")];
    let sections = sections.iter().enumerate().map(|(n, (_, data))| {
        let data = if n == which { damaged.clone() } else { data.clone() };
        (numbers[n], if numbers[n] == 3 { items.clone() } else { vec![] }, data)
    });
    let file = made::container(&sections.collect::<Vec<_>>());
    let report = lint(&Bundle::from_blob(Blob::from_vec(file), "damaged").expect("the container is sound"));
    report.count(Severity::Fault) == 0
}
