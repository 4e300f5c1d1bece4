//! The report: findings go in one by one, groups of them come out, each with a count and its first few in full.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use serde::Serialize;

use crate::place::{Place, Spot};
use crate::rules::Rule;

/// Findings of one rule that are kept in full for each signature; the others are counted.
pub const KEPT: u64 = 32;
/// Findings of one rule that are kept in full, of all signatures together.
const KEPT_IN_ALL: usize = 1024;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A user gets wrong results, or none.
    Fault,
    /// Some runtimes or backends refuse it, or it costs more than it must.
    Warning,
    /// Worth knowing.
    Note,
}

impl Display for Severity {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Severity::Fault => "fault",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// All that was found, the worst first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Findings by rule and severity.
    pub groups: Vec<Group>,
}

/// Findings of one rule and one severity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The rule.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What the rule says.
    pub meaning: &'static str,
    /// What can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// How many findings there are.
    pub count: u64,
    /// How many there are in each signature; `-` for what is in none.
    pub by_signature: Vec<(String, u64)>,
    /// The first [`KEPT`] of each signature.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    counted: BTreeMap<(Option<usize>, Option<usize>), usize>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What, in a sentence.
    pub message: String,
}

impl Report {
    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.groups.iter().filter(|group| group.severity == severity).map(|group| group.count).sum()
    }

    /// The findings of a rule, in whatever severity.
    pub fn of<'r>(&'r self, rule: &'r str) -> impl Iterator<Item = &'r Group> {
        self.groups.iter().filter(move |group| group.rule == rule)
    }

    pub(crate) fn sink(&mut self, rule: &'static Rule) -> Sink<'_> {
        Sink { report: self, rule }
    }

    pub(crate) fn finish(mut self) -> Report {
        self.groups.sort_by_key(|group| group.severity);
        self
    }

    fn group(&mut self, rule: &'static Rule, severity: Severity) -> &mut Group {
        let found = self.groups.iter().position(|group| group.rule == rule.id && group.severity == severity);
        let found = found.unwrap_or_else(|| {
            self.groups.push(Group {
                rule: rule.id,
                severity,
                meaning: rule.meaning,
                hint: rule.hint,
                count: 0,
                by_signature: Vec::new(),
                findings: Vec::new(),
                counted: BTreeMap::new(),
            });
            self.groups.len() - 1
        });
        &mut self.groups[found]
    }
}

/// Where a rule puts what it finds.
pub(crate) struct Sink<'r> {
    report: &'r mut Report,
    rule: &'static Rule,
}

impl Sink<'_> {
    pub(crate) fn fault(&mut self, spot: Spot<'_>, message: impl FnOnce() -> String) {
        self.add(Severity::Fault, spot, message);
    }

    pub(crate) fn warning(&mut self, spot: Spot<'_>, message: impl FnOnce() -> String) {
        self.add(Severity::Warning, spot, message);
    }

    pub(crate) fn note(&mut self, spot: Spot<'_>, message: impl FnOnce() -> String) {
        self.add(Severity::Note, spot, message);
    }

    /// What only a GPU minds: no more than a note where the section says that none may run it.
    pub(crate) fn on_gpu(&mut self, severity: Severity, spot: Spot<'_>, message: impl FnOnce() -> String) {
        let severity = if spot.part.is_none_or(|part| part.reaches_gpu) { severity } else { Severity::Note };
        self.add(severity, spot, message);
    }

    fn add(&mut self, severity: Severity, spot: Spot<'_>, message: impl FnOnce() -> String) {
        let group = self.report.group(self.rule, severity);
        group.count += 1;
        let next = group.by_signature.len();
        let entry = *group.counted.entry(spot.entry()).or_insert(next);
        if entry == next {
            group.by_signature.push((spot.signature().unwrap_or_else(|| "-".to_owned()), 0));
        }
        group.by_signature[entry].1 += 1;
        if group.by_signature[entry].1 <= KEPT && group.findings.len() < KEPT_IN_ALL {
            group.findings.push(Finding { place: spot.place(), message: message() });
        }
    }
}
