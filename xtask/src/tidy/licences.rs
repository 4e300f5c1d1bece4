//! Licences: all packages go in, those that one could not ship under permissive terms alone come out.

use super::{File, Finding, line_of};
use crate::metadata::Metadata;

const RULE: &str = "licences";
/// Licences that ask for a notice at most.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(crate) fn check(files: &[File], metadata: &Metadata) -> Vec<Finding> {
    let refused = metadata.packages.iter().filter(|package| !is_permissive(&package.licence));
    refused
        .map(|package| {
            let line = line_of(files, "Cargo.lock", |line| line == format!("name = \"{}\"", package.name));
            let licence = if package.licence.is_empty() { "none stated" } else { &package.licence };
            let message = format!("{} {}: not permissive: {licence}", package.name, package.version);
            Finding::new("Cargo.lock", line, RULE, message)
        })
        .collect()
}

/// Whether an SPDX expression can be met by permissive licences alone. An old `/` means `OR`.
pub(crate) fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { left: spaced.split_whitespace().collect() };
    words.left.reverse();
    let answer = words.any();
    answer == Some(true) && words.left.is_empty()
}

/// The words that are still to be read, the next one last. `None` stands for what is no expression.
struct Words<'a> {
    left: Vec<&'a str>,
}

impl Words<'_> {
    fn skip(&mut self, word: &str) -> bool {
        let found = self.left.last().is_some_and(|next| *next == word);
        if found {
            self.left.pop();
        }
        found
    }

    fn any(&mut self) -> Option<bool> {
        let mut answer = self.all()?;
        while self.skip("OR") {
            answer |= self.all()?;
        }
        Some(answer)
    }

    fn all(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.skip("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.skip("(") {
            let answer = self.any()?;
            return self.skip(")").then_some(answer);
        }
        let mut licence = self.left.pop()?.to_owned();
        if self.skip("WITH") {
            licence = format!("{licence} WITH {}", self.left.pop()?);
        }
        Some(PERMISSIVE.contains(&licence.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;
    use crate::metadata::Package;

    #[test]
    fn expressions_are_met_by_permissive_licences_alone() {
        let permissive = [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "LGPL-2.1-or-later OR (MIT AND (ISC OR GPL-3.0-only))",
        ];
        for expression in permissive {
            assert!(is_permissive(expression), "{expression}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let refused = [
            "",
            "GPL-3.0-only",
            "MPL-2.0",
            "MIT AND GPL-3.0-only",
            "(MIT OR ISC) AND LGPL-2.1-or-later",
            "MIT AND LGPL-2.1-or-later OR GPL-3.0-only",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "Apache-2.0 WITH",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "OR MIT",
        ];
        for expression in refused {
            assert!(!is_permissive(expression), "{expression}");
        }
    }

    #[test]
    fn a_package_is_named_with_its_line_in_the_lock_file() {
        let lock = file("Cargo.lock", "version = 4\n\n[[package]]\nname = \"closed\"\n");
        let package = Package { name: "closed".into(), version: "1.0.0".into(), ..Package::default() };
        let found = check(&[lock], &Metadata { packages: vec![package] });
        let expected = "error: Cargo.lock:4: [licences] closed 1.0.0: not permissive: none stated";
        assert_eq!(found[0].to_string(), expected);
    }
}
