//! Tensor names as bytes of the file: a TFLite section goes in, lengths and short labels come out; no name is copied
//! whole, as one can be thousands of bytes long and shared by a million tensors.

use std::collections::HashSet;

use kinglet_bundle::Section;
use kinglet_flat::{Field, Flat};

const SUBGRAPHS: Field = Field::new("subgraphs", 2);
const TENSORS: Field = Field::new("tensors", 0);
const NAME: Field = Field::new("name", 3);
/// A FlatBuffer's own offsets reach no further.
const FLATBUFFER_LIMIT: usize = i32::MAX as usize;
/// Characters of a label: the end of a name, as its beginning repeats the modules that all tensors are in.
const LABEL: usize = 80;

/// Where the names of all tensors lie.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// For each subgraph, for each tensor: first byte and length.
    places: Vec<Vec<(u64, u32)>>,
    /// Bytes of all names, shared ones once.
    pub(crate) total: u64,
    /// Number of names, shared ones once.
    pub(crate) distinct: u64,
    /// Subgraph and tensor with the longest name, and its bytes.
    pub(crate) longest: Option<(usize, usize, u32)>,
}

impl Names {
    /// Measures the names of a section that has been read as a model.
    pub(crate) fn measure(section: &Section) -> Names {
        let mut names = Names::default();
        // The model could be read from these bytes: an error cannot happen, and would only cost labels.
        let _ = names.read(&section.data);
        names
    }

    fn read(&mut self, bytes: &[u8]) -> kinglet_flat::Result<()> {
        let flat = Flat::new(&bytes[..bytes.len().min(FLATBUFFER_LIMIT)], "Model");
        let mut seen = HashSet::new();
        for (graph, subgraph) in flat.root()?.tables(SUBGRAPHS)?.iter().enumerate() {
            self.places.push(Vec::new());
            for (n, tensor) in subgraph?.tables(TENSORS)?.iter().enumerate() {
                let (start, len) = tensor?.bytes(NAME, 1)?.map_or((0, 0), |b| (b.start, b.bytes.len() as u32));
                self.places[graph].push((start, len));
                if len > 0 && seen.insert(start) {
                    self.total += u64::from(len);
                    self.distinct += 1;
                    if self.longest.is_none_or(|(_, _, longest)| len > longest) {
                        self.longest = Some((graph, n, len));
                    }
                }
            }
        }
        Ok(())
    }

    /// The end of a tensor's name.
    pub(crate) fn label(&self, section: &Section, graph: usize, tensor: usize) -> String {
        let place = self.places.get(graph).and_then(|places| places.get(tensor));
        let Some((start, len)) = place.copied().filter(|(_, len)| *len > 0) else {
            return format!("#{tensor}");
        };
        let end = start as usize + len as usize;
        // A character has four bytes at most.
        let first = end - (len as usize).min(4 * LABEL);
        tail(&String::from_utf8_lossy(&section.data[first..end]), LABEL, first > start as usize)
    }
}

/// The last `most` characters; dots where something is missing before them.
fn tail(text: &str, most: usize, is_cut: bool) -> String {
    let start = text.char_indices().rev().take(most).last().map_or(0, |(start, _)| start);
    let dots = if start > 0 || is_cut { "..." } else { "" };
    format!("{dots}{}", &text[start..])
}

/// The first characters of a text that may be of any length.
pub(crate) fn head(text: &str) -> String {
    match text.char_indices().nth(LABEL) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_at_characters() {
        assert_eq!(tail("abc", 3, false), "abc");
        assert_eq!(tail("abcd", 3, false), "...bcd");
        assert_eq!(tail("äöü", 2, false), "...öü");
        assert_eq!(tail("abc", 3, true), "...abc");
        assert_eq!(head(&"ä".repeat(81)), format!("{}...", "ä".repeat(80)));
        assert_eq!(head("x"), "x");
    }
}
