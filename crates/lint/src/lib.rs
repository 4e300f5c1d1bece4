//! What is wrong with a bundle: an opened `.litertlm` file goes in, findings come out, each with the operator, node and
//! tensor that it is about; it never runs an operator and never changes anything.
//!
//! Rooms, in reading order: [`Report`] (what users hold), `subject` (what rules see of a bundle), `relations` (who makes
//! and who reads a tensor), `rules` (one file per group of rules, one line per rule).
//!
//! ```no_run
//! let bundle = kinglet_bundle::Bundle::open("model.litertlm".as_ref())?;
//! for group in &kinglet_lint::lint(&bundle).groups {
//!     println!("{} {}: {} times", group.severity, group.rule, group.count);
//! }
//! # Ok::<(), kinglet_bundle::Error>(())
//! ```

mod names;
mod op;
mod place;
mod relations;
mod report;
mod rules;
mod states;
mod subject;
mod tokenizer;

use kinglet_bundle::Bundle;

pub use place::{Place, SectionPlace, TensorPlace};
pub use report::{Finding, Group, KEPT, Report, Severity};

/// A rule, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// What findings call it.
    pub id: &'static str,
    /// What it says, in one sentence.
    pub meaning: &'static str,
}

/// All rules, in the order in which they are applied.
pub fn rules() -> impl Iterator<Item = RuleName> {
    rules::RULES.iter().map(|rule| RuleName { id: rule.id, meaning: rule.meaning })
}

/// Applies every rule to a bundle, of whatever family. Parts that cannot be read become findings too.
///
/// The time is linear in the sizes of the graphs, of the metadata and of the tokenizer. Weights are not read, but for
/// those that look like copies of each other.
pub fn lint(bundle: &Bundle) -> Report {
    let subject = subject::Subject::new(bundle);
    let mut report = Report::default();
    for rule in rules::RULES {
        (rule.check)(&subject, &mut report.sink(rule));
    }
    report.finish()
}
