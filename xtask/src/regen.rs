//! Generated files: what they are generated from goes in, the files come out, or a complaint about one that is out of
//! date; it never touches a file that is written by hand.

mod crates;
mod demo_lock;

use std::path::Path;

use anyhow::{Context, Result, bail};

/// A path from the root and what writes its content.
type Generated = (&'static str, fn(&Path) -> Result<String>);

const FILES: &[Generated] = &[("CRATES.md", crates::generate), ("models/demo/demo.lock.json", demo_lock::generate)];

/// Rewrites all generated files.
pub(crate) fn write(root: &Path) -> Result<()> {
    for (path, generate) in FILES {
        let wanted = generate(root).with_context(|| format!("cannot generate {path}"))?;
        let changed = read(root, path) != wanted;
        if changed {
            std::fs::write(root.join(path), wanted).with_context(|| format!("cannot write {path}"))?;
        }
        println!("regen: {path} {}", if changed { "rewritten" } else { "is up to date" });
    }
    Ok(())
}

/// Fails when a generated file is not what would be written now.
pub(crate) fn check(root: &Path) -> Result<()> {
    for (path, generate) in FILES {
        let wanted = generate(root).with_context(|| format!("cannot generate {path}"))?;
        if let Some((line, found, wanted)) = first_difference(&read(root, path), &wanted) {
            bail!(
                "{path}:{line} is out of date: `cargo xtask regen` would rewrite it\n  found:  {found}\n  wanted: {wanted}"
            );
        }
        println!("regen: {path} is up to date");
    }
    Ok(())
}

/// A file that is missing differs from every other by being empty.
fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// Number and content of the first line that differs; what is beyond an end is shown as such.
fn first_difference<'a>(found: &'a str, wanted: &'a str) -> Option<(usize, &'a str, &'a str)> {
    const END: &str = "(end of file)";
    if found == wanted {
        return None;
    }
    let (mut a, mut b) = (found.split('\n'), wanted.split('\n'));
    (1..).map(|line| (line, a.next().unwrap_or(END), b.next().unwrap_or(END))).find(|(_, a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_shown() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("", "a\n"), Some((1, "", "a")));
        assert_eq!(first_difference("a", "a\n"), Some((2, "(end of file)", "")));
        assert_eq!(first_difference("a\n\n", "a\n"), Some((3, "", "(end of file)")));
    }
}
