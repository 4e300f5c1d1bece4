//! The added tokens of a tokenizer go in, their leftmost longest occurrences in a text come out; it never looks at the
//! ordinary vocabulary.

use std::ops::Range;

/// A string that stands for one token wherever a template writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedToken {
    /// The string, such as `<|im_end|>`.
    pub content: String,
    /// Its id.
    pub id: u32,
    /// Whether it controls the conversation and is hidden from readers.
    pub special: bool,
}

#[derive(Debug, Default)]
struct Node {
    /// Sorted by byte.
    children: Vec<(u8, u32)>,
    /// Position in `tokens` of the token that ends here.
    token: Option<u32>,
}

impl Node {
    fn child(&self, byte: u8) -> Option<usize> {
        let at = self.children.binary_search_by_key(&byte, |child| child.0).ok()?;
        Some(self.children[at].1 as usize)
    }
}

/// A byte trie over the contents of all added tokens.
#[derive(Debug)]
pub(crate) struct AddedTokens {
    tokens: Vec<AddedToken>,
    nodes: Vec<Node>,
    starts: [bool; 256],
}

impl AddedTokens {
    /// `tokens` must not hold an empty content or one content twice.
    pub(crate) fn new(tokens: Vec<AddedToken>) -> Self {
        let mut added = Self { tokens: Vec::new(), nodes: vec![Node::default()], starts: [false; 256] };
        for (place, token) in tokens.iter().enumerate() {
            added.insert(token.content.as_bytes(), place as u32);
        }
        added.tokens = tokens;
        added
    }

    fn insert(&mut self, content: &[u8], place: u32) {
        let mut node = 0;
        for &byte in content {
            node = match self.nodes[node].children.binary_search_by_key(&byte, |child| child.0) {
                Ok(at) => self.nodes[node].children[at].1 as usize,
                Err(at) => {
                    let new = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[node].children.insert(at, (byte, new as u32));
                    new
                }
            };
        }
        self.nodes[node].token = Some(place);
        self.starts[content[0] as usize] = true;
    }

    pub(crate) fn tokens(&self) -> &[AddedToken] {
        &self.tokens
    }

    /// The first occurrence at or after byte `from` that `allowed` accepts, and its id: leftmost, then longest.
    pub(crate) fn find(
        &self,
        text: &str,
        from: usize,
        allowed: impl Fn(&Range<usize>) -> bool,
    ) -> Option<(Range<usize>, u32)> {
        let bytes = text.as_bytes();
        (from..bytes.len()).filter(|&start| self.starts[bytes[start] as usize]).find_map(|start| {
            let mut longest = None;
            let mut node = &self.nodes[0];
            for (offset, &byte) in bytes[start..].iter().enumerate() {
                let Some(child) = node.child(byte) else { break };
                node = &self.nodes[child];
                let range = start..start + offset + 1;
                if let Some(place) = node.token
                    && allowed(&range)
                {
                    longest = Some((range, self.tokens[place as usize].id));
                }
            }
            longest
        })
    }

    /// Byte offsets at which a token begins for which `marks` holds, or at which `text` ends within a token, blanks at
    /// its end apart: there the next piece of a prompt could complete it.
    pub(crate) fn starts(&self, text: &str, marks: impl Fn(&AddedToken) -> bool) -> Vec<usize> {
        let bytes = text.as_bytes();
        let trimmed = text.trim_end().len();
        let begins = |start: usize| {
            let mut node = &self.nodes[0];
            for (offset, &byte) in bytes[start..].iter().enumerate() {
                if start + offset == trimmed && offset > 0 && !node.children.is_empty() {
                    return true;
                }
                let Some(child) = node.child(byte) else { return false };
                node = &self.nodes[child];
                if node.token.is_some_and(|place| marks(&self.tokens[place as usize])) {
                    return true;
                }
            }
            !node.children.is_empty()
        };
        (0..bytes.len()).filter(|&start| self.starts[bytes[start] as usize] && begins(start)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(contents: &[&str]) -> AddedTokens {
        let token = |(id, content): (usize, &&str)| AddedToken {
            content: (*content).to_owned(),
            id: id as u32,
            special: false,
        };
        AddedTokens::new(contents.iter().enumerate().map(token).collect())
    }

    #[test]
    fn finds_the_leftmost_then_the_longest() {
        let tokens = added(&["<a>", "<a><b>", "b>", "é"]);
        assert_eq!(tokens.find("x<a><b>", 0, |_| true), Some((1..7, 1)));
        assert_eq!(tokens.find("x<a><b", 0, |_| true), Some((1..4, 0)));
        assert_eq!(tokens.find("x<a><b>", 2, |_| true), Some((5..7, 2)));
        assert_eq!(tokens.find("è é", 0, |_| true), Some((3..5, 3)));
        assert_eq!(tokens.find("<", 0, |_| true), None);
        assert_eq!(tokens.find("", 0, |_| true), None);
    }

    #[test]
    fn starts_are_those_of_whole_tokens_and_of_cut_ones_at_the_end() {
        let tokens = added(&["<a>", "<a><b>", "b>", " <c>"]);
        let all = |text| tokens.starts(text, |_| true);
        assert_eq!(all("x<a><b>y"), [1, 5], "b> inside <b> too");
        assert_eq!(all("<x <a"), [3]);
        assert_eq!(all("< a <a> <a \n"), [4, 8]);
        assert_eq!(all("x < y"), Vec::<usize>::new());
        assert_eq!(all("  "), [1]);
        assert_eq!(tokens.starts("<a>.", |token| token.id != 0), Vec::<usize>::new());
        assert_eq!(tokens.starts("<a><b>.", |token| token.id != 0), [0, 4]);
    }

    #[test]
    fn a_forbidden_long_match_gives_way_to_a_short_one() {
        let tokens = added(&["<a>", "<a><b>"]);
        assert_eq!(tokens.find("<a><b>", 0, |range| range.end < 6), Some((0..3, 0)));
    }
}
