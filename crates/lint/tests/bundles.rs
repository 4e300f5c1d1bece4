//! Bundles that the official tools and the published recipe wrote: their known faults are found, and no others.

use std::path::{Path, PathBuf};

use kinglet_bundle::Bundle;
use kinglet_lint::{Report, Severity, lint};

const OURS: &str = "../../fixtures/bundles";
const SHARED: &str = "../../../shared/bundles";

fn report(path: &Path) -> Report {
    lint(&Bundle::open(path).expect("a sound bundle"))
}

fn of(report: &Report, severity: Severity) -> Vec<(&'static str, u64)> {
    let groups = report.groups.iter().filter(|group| group.severity == severity);
    groups.map(|group| (group.rule, group.count)).collect()
}

/// Number of findings; a guard in each signature that has one, three projections or operators per signature.
type Expected = (&'static str, &'static [(&'static str, u64)], &'static [&'static str]);

const OFFICIAL: &[&str] = &["activation-type", "scalar-in-broadcast", "rank-2-constant", "custom-operator"];
const COMMUNITY: &[&str] = &["pad-axis", "activation-type", "scalar-in-broadcast", "rank-2-constant", "tensor-names"];

const BUNDLES: &[Expected] = &[
    ("tiny/tiny_float", &[("guard-on-pad-token", 4)], OFFICIAL),
    ("tiny/tiny_wi8fc", &[("guard-on-pad-token", 4)], OFFICIAL),
    ("tiny/tiny_wi8all", &[("guard-on-pad-token", 4), ("int8-gates", 24)], OFFICIAL),
    ("tiny/tinyc_float", &[("guard-on-token-0", 2)], COMMUNITY),
    ("tiny/tinyc_wi8fc", &[("guard-on-token-0", 2)], COMMUNITY),
    ("tiny4b/tiny4b_float", &[("guard-on-pad-token", 4), ("grouped-heads", 12)], OFFICIAL),
    ("tiny4b/tiny4b_wi8fc", &[("guard-on-pad-token", 4), ("grouped-heads", 12)], OFFICIAL),
];

#[test]
fn published_dialects_show_their_known_faults_and_no_other() {
    for (name, faults, warnings) in BUNDLES {
        let report = report(&PathBuf::from(OURS).join(name).with_extension("litertlm"));
        assert_eq!(of(&report, Severity::Fault), *faults, "{name}");
        let found: Vec<_> = of(&report, Severity::Warning).into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(found, *warnings, "{name}");
    }
}

#[test]
fn a_known_fault_names_token_operator_and_states() {
    let messages = |name: &str, rule: &str| {
        let report = report(&PathBuf::from(OURS).join(name));
        let group = report.of(rule).next().expect(rule).clone();
        (group.findings[0].place.to_string(), group.findings[0].message.clone())
    };
    let (place, message) = messages("tiny/tiny_float.litertlm", "guard-on-pad-token");
    assert!(place.contains("prefill_32, subgraph 0, node 0 NOT_EQUAL, tensor prefill_32_tokens"), "{place}");
    assert!(message.contains("token 998 (`<|endoftext|>`)") && message.contains("6 recurrent states"), "{message}");
    let (_, message) = messages("tiny/tinyc_float.litertlm", "guard-on-token-0");
    assert!(message.contains("token 0 (`!`)"), "{message}");
    let (_, message) = messages("tiny4b/tiny4b_float.litertlm", "grouped-heads");
    assert!(message.contains("2 query heads, 2 key heads and 4 value heads"), "{message}");
    let (place, message) = messages("tiny/tiny_wi8all.litertlm", "int8-gates");
    assert!(place.contains("i8[4, 64]") && message.contains("through a sigmoid"), "{place}: {message}");
}

#[test]
fn shared_bundles_show_the_same_faults() {
    for (name, rule) in [("demo_wi8fc", "guard-on-pad-token"), ("democ_wi8fc", "guard-on-token-0")] {
        let path = PathBuf::from(SHARED).join("demo").join(name).with_extension("litertlm");
        if !path.exists() {
            println!("skipped: {} is absent", path.display());
            continue;
        }
        let report = report(&path);
        assert_eq!(of(&report, Severity::Fault).iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), [rule], "{name}");
    }
}
