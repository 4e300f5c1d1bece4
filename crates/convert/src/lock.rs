//! Locks: what went into a conversion and what came out, as digests, in JSON; two of them go in, what differs comes out.

use kinglet_bundle::write::Receipt;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::inputs::InputFile;

/// The version of locks that is written and read.
pub const LOCK_VERSION: u32 = 1;

/// What went into a conversion and what came out. The same inputs, recipe, options and program give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// [`LOCK_VERSION`].
    pub lock: u32,
    /// What converted.
    pub program: Program,
    /// The checkpoint's files, by name.
    pub inputs: Vec<InputFile>,
    /// The recipe.
    pub recipe: RecipeName,
    /// The other choices.
    pub options: Choices,
    /// What came out.
    pub bundle: LockedBundle,
}

/// A program by name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A recipe by name, version and digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeName {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// SHA-256 of what it says.
    pub sha256: String,
}

/// Choices beside the recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choices {
    /// Tokens that each prefill signature takes.
    pub ladder: Vec<usize>,
    /// Positions in the caches.
    pub cache_length: usize,
    /// `simple`, `stock`, or `file`.
    pub template: String,
    /// The source of a template from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_source: Option<String>,
    /// What the model is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A bundle by its digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedBundle {
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Its sections in order.
    pub sections: Vec<LockedSection>,
}

/// A section by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedSection {
    /// What it holds.
    pub kind: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

impl Program {
    /// This one.
    pub fn this() -> Program {
        Program { name: "kinglet".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

impl From<&Receipt> for LockedBundle {
    fn from(receipt: &Receipt) -> LockedBundle {
        let sections = receipt.sections.iter().map(|section| LockedSection {
            kind: section.kind.to_string(),
            size_bytes: section.size_bytes,
            sha256: section.sha256.to_string(),
        });
        LockedBundle {
            size_bytes: receipt.size_bytes,
            sha256: receipt.sha256.to_string(),
            sections: sections.collect(),
        }
    }
}

impl Lock {
    /// Reads a lock; messages call it `name`.
    ///
    /// # Errors
    /// It is no lock, or one of another version.
    pub fn parse(name: &str, json: &[u8]) -> Result<Lock> {
        let wrong = |found: String| Error::invalid(name, format!("a lock of version {LOCK_VERSION}"), found);
        let lock: Lock = serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        if lock.lock != LOCK_VERSION {
            return Err(wrong(format!("version {}", lock.lock)));
        }
        Ok(lock)
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a lock is plain data");
        text.push('\n');
        text
    }

    /// What is not in `found` as it is here, a sentence each, causes before effects; nothing where both agree.
    pub fn differences(&self, found: &Lock) -> Vec<String> {
        let mut all = Vec::new();
        let mut differ = |what: String, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
            all.push(format!("{what}: expected {expected}, found {found}"));
        };
        if self.program != found.program {
            let show = |program: &Program| format!("{} {}", program.name, program.version);
            differ("program".to_owned(), &show(&self.program), &show(&found.program));
        }
        if self.recipe != found.recipe {
            let show = |recipe: &RecipeName| format!("{} version {}", recipe.name, recipe.version);
            differ("recipe".to_owned(), &show(&self.recipe), &show(&found.recipe));
        }
        for input in &self.inputs {
            match found.inputs.iter().find(|other| other.name == input.name) {
                None => differ(format!("input {}", input.name), &input.sha256, &"no such file"),
                Some(other) if other != input => {
                    differ(format!("input {}", input.name), &input.sha256, &other.sha256);
                }
                Some(_) => {}
            }
        }
        for input in found.inputs.iter().filter(|f| !self.inputs.iter().any(|i| i.name == f.name)) {
            differ(format!("input {}", input.name), &"no such file", &input.sha256);
        }
        self.bundle.differences(&found.bundle, &mut differ);
        all
    }
}

impl LockedBundle {
    fn differences(
        &self,
        found: &LockedBundle,
        differ: &mut impl FnMut(String, &dyn std::fmt::Display, &dyn std::fmt::Display),
    ) {
        if self.sections.len() != found.sections.len() {
            differ("sections".to_owned(), &self.sections.len(), &found.sections.len());
        }
        for (index, (mine, theirs)) in self.sections.iter().zip(&found.sections).enumerate() {
            if mine != theirs {
                let show = |s: &LockedSection| format!("{} of {} bytes, sha256 {}", s.kind, s.size_bytes, s.sha256);
                differ(format!("section {index}"), &show(mine), &show(theirs));
            }
        }
        if self.sha256 != found.sha256 {
            differ("bundle".to_owned(), &self.sha256, &found.sha256);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        let file = |name: &str| InputFile { name: name.into(), size_bytes: 3, sha256: "aa".into() };
        let section = |kind: &str| LockedSection { kind: kind.into(), size_bytes: 5, sha256: "bb".into() };
        Lock {
            lock: LOCK_VERSION,
            program: Program::this(),
            inputs: vec![file("config.json"), file("model.safetensors")],
            recipe: RecipeName { name: "int8".into(), version: 1, sha256: "cc".into() },
            options: Choices {
                ladder: vec![8, 1],
                cache_length: 64,
                template: "simple".into(),
                template_source: None,
                name: None,
            },
            bundle: LockedBundle {
                size_bytes: 9,
                sha256: "dd".into(),
                sections: vec![section("LlmMetadataProto"), section("TFLiteModel")],
            },
        }
    }

    #[test]
    fn a_lock_reads_back_and_agrees_with_itself() {
        let lock = lock();
        assert_eq!(Lock::parse("x", lock.to_json().as_bytes()).expect("sound"), lock);
        assert!(lock.differences(&lock).is_empty());
    }

    type Change = fn(&mut Lock);

    #[test]
    fn what_differs_is_named() {
        let changes: &[(Change, &str)] = &[
            (|l| l.program.version = "9".into(), "program: expected kinglet"),
            (|l| l.recipe.name = "float".into(), "recipe: expected int8 version 1, found float version 1"),
            (|l| l.inputs[0].sha256 = "ee".into(), "input config.json: expected aa, found ee"),
            (|l| drop(l.inputs.remove(1)), "input model.safetensors: expected aa, found no such file"),
            (|l| l.inputs[0].name = "a".into(), "input a: expected no such file, found aa"),
            (|l| l.bundle.sections[1].size_bytes = 6, "section 1: expected TFLiteModel of 5 bytes"),
            (|l| drop(l.bundle.sections.pop()), "sections: expected 2, found 1"),
            (|l| l.bundle.sha256 = "ff".into(), "bundle: expected dd, found ff"),
        ];
        for (change, expected) in changes {
            let mut other = lock();
            change(&mut other);
            let differences = lock().differences(&other);
            assert!(differences.iter().any(|d| d.starts_with(expected)), "{expected}: {differences:?}");
        }
    }

    #[test]
    fn what_is_no_lock_is_refused_by_name() {
        let other = lock().to_json().replace("\"lock\": 1", "\"lock\": 2");
        for (json, expected) in
            [("{}", "x.json: expected a lock of version 1, found missing"), (&other, "found version 2")]
        {
            let text = Lock::parse("x.json", json.as_bytes()).expect_err("refused").to_string();
            assert!(text.contains(expected), "{text}");
        }
    }
}
