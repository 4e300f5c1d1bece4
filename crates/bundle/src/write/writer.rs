//! The writer: sections are added, their places computed, and everything written from front to back.

use std::io::Write;
use std::ops::Range;

use serde::Serialize;

use super::part::Source;
use super::sink::{Full, Refusal, Sink, is_full};
use super::{Digest, Part, Watch, header};
use crate::Result;
use crate::container::{BLOCK, Header, Version, check_count, check_duplicates};
use crate::error::{Error, Inner};
use crate::section::{Item, SectionKind, label};

/// A bundle to be: system metadata and sections.
///
/// Sections lie in the order in which they were added, each on a multiple of [`BLOCK`], zeros between them, and the file
/// ends with the last one.
pub struct Writer<'a> {
    version: Version,
    system: Vec<Item>,
    parts: Vec<Part<'a>>,
    kept: Option<Kept<'a>>,
}

/// A header that is written again as it is, as long as it says the truth.
struct Kept<'a> {
    bytes: Vec<u8>,
    header: Header,
    /// Length of the file that it was in.
    len: u64,
    /// What lies between the sections there, where it is not zeros.
    fillings: Vec<(u64, Part<'a>)>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// Length of the file in bytes.
    pub size_bytes: u64,
    /// Digest of the file.
    pub sha256: Digest,
    /// The sections in the order of the header.
    pub sections: Vec<Written>,
}

/// A section that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// What it holds.
    pub kind: SectionKind,
    /// First byte in the file.
    pub begin: u64,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Digest of its bytes.
    pub sha256: Digest,
}

struct Layout {
    header: Vec<u8>,
    ranges: Vec<Range<u64>>,
    len: u64,
    /// Whether all lies where it lay in the file of the kept header.
    is_kept: bool,
}

impl<'a> Writer<'a> {
    /// A bundle without sections, whose writer says `system` of it.
    pub fn new(system: Vec<Item>) -> Writer<'a> {
        Writer { version: Version { major: 1, minor: 7, patch: 0 }, system, parts: Vec::new(), kept: None }
    }

    /// A bundle like the one of `len` bytes that begins with `start`, without its sections; `name` is for messages.
    ///
    /// While the same is said of the same number of sections, the header is written as it was, with what this version
    /// does not know of. While the lengths are the same too, everything lies where it lay.
    pub fn like(name: &str, start: &[u8], len: u64) -> Result<Writer<'a>> {
        let header = Header::parse(start, len).map_err(|inner| Error { file: name.to_owned(), inner })?;
        let bytes = start[..header.len as usize].to_vec();
        let (version, system) = (header.version, header.system.clone());
        Ok(Writer { version, system, parts: Vec::new(), kept: Some(Kept { bytes, header, len, fillings: Vec::new() }) })
    }

    /// Appends a section.
    pub fn add(&mut self, part: Part<'a>) {
        self.parts.push(part);
    }

    /// The sections so far.
    pub fn parts_mut(&mut self) -> &mut [Part<'a>] {
        &mut self.parts
    }

    /// What is said of the whole bundle.
    pub fn system_mut(&mut self) -> &mut Vec<Item> {
        &mut self.system
    }

    /// Bytes that lie at `at` between the sections of the bundle that this is to be like; they are written only where
    /// everything lies as it lay there.
    pub fn fill(&mut self, at: u64, part: Part<'a>) {
        if let Some(kept) = &mut self.kept {
            kept.fillings.push((at, part));
        }
    }

    /// Length of the file in bytes; `name` is for messages.
    pub fn size_bytes(&self, name: &str) -> Result<u64> {
        let layout = self.layout().map_err(|inner| Error { file: name.to_owned(), inner })?;
        Ok(layout.len)
    }

    /// Writes the bundle; messages call it `name`.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): the header says something that this version cannot write.
    /// [`Invalid`](crate::ErrorKind::Invalid): two sections of a kind, two items of a key. [`Source`](crate::ErrorKind::Source):
    /// a source failed or has not the length that it was said to have. [`Full`](crate::ErrorKind::Full),
    /// [`Io`](crate::ErrorKind::Io), [`Interrupted`](crate::ErrorKind::Interrupted): as they say.
    pub fn write(self, name: &str, out: &mut dyn Write, watch: &mut Watch<'_>) -> Result<Receipt> {
        self.write_all(out, watch).map_err(|inner| Error { file: name.to_owned(), inner })
    }

    fn write_all(self, out: &mut dyn Write, watch: &mut Watch<'_>) -> std::result::Result<Receipt, Inner> {
        let layout = self.layout()?;
        let mut watch = |written, needed| watch(written, needed);
        let mut sink = Sink::new(out, layout.len, &mut watch);
        let told = sink.write_all(&layout.header);
        settle(&mut sink, layout.len, "header", told)?;
        let fillings = self.kept.filter(|_| layout.is_kept).map_or_else(Vec::new, |kept| kept.fillings);
        let fillings = fillings.into_iter().map(|(at, part)| (at, None, part));
        let parts = self.parts.into_iter().zip(&layout.ranges).enumerate();
        let parts = parts.map(|(index, (part, range))| (range.start, Some(index), part));
        let mut spans: Vec<_> = parts.chain(fillings).collect();
        spans.sort_by_key(|(begin, index, part)| (*begin, part.len, *index));
        let mut written: Vec<(usize, Written)> = Vec::new();
        for (begin, index, part) in spans {
            let told = sink.zeros(begin);
            settle(&mut sink, layout.len, "bytes between sections", told)?;
            let (kind, len) = (part.kind, part.len);
            let what = index.map_or_else(|| "bytes between sections".to_owned(), |index| label(index, kind));
            let sha256 = write_section(&mut sink, begin, layout.len, &what, part)?;
            written.extend(index.map(|index| (index, Written { kind, begin, size_bytes: len, sha256 })));
        }
        let told = sink.zeros(layout.len);
        settle(&mut sink, layout.len, "bytes behind the sections", told)?;
        let told = sink.flush();
        settle(&mut sink, layout.len, "file", told)?;
        written.sort_by_key(|(index, _)| *index);
        let sections = written.into_iter().map(|(_, section)| section).collect();
        Ok(Receipt { size_bytes: layout.len, sha256: sink.finish(), sections })
    }

    fn layout(&self) -> std::result::Result<Layout, Inner> {
        let said = header::said(&self.parts);
        check_count(said.len())?;
        check_duplicates(said.iter().copied())?;
        let layout = match &self.kept {
            Some(kept) if kept.says(self.version, &self.system, &said) => self.keep(kept)?,
            Some(Kept { header: Header { foreign: Some(foreign), .. }, .. }) => {
                let what = format!("the header holds {foreign}, which this version cannot write with other items");
                return Err(Inner::Unsupported { what });
            }
            _ => {
                let zeros = vec![0..0; said.len()];
                let len = header::encode(self.version, &self.system, &said, &zeros)?.len() as u64;
                let (ranges, end) = place(len, self.parts.iter().enumerate().map(|(index, part)| (index, part.len)))?;
                let header = header::encode(self.version, &self.system, &said, &ranges)?;
                Layout { header, ranges, len: end, is_kept: false }
            }
        };
        self.check(&layout)?;
        Ok(layout)
    }

    /// The layout with the kept header, moved as far as lengths have changed.
    fn keep(&self, kept: &Kept<'_>) -> std::result::Result<Layout, Inner> {
        let entries = &kept.header.entries;
        let lens = self.parts.iter().map(|part| part.len);
        if lens.eq(entries.iter().map(|entry| entry.range.end - entry.range.start)) {
            let ranges = entries.iter().map(|entry| entry.range.clone()).collect();
            return Ok(Layout { header: kept.bytes.clone(), ranges, len: kept.len, is_kept: true });
        }
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|index| (entries[*index].range.start, entries[*index].range.end));
        let (ranges, len) = place(kept.header.len, order.iter().map(|index| (*index, self.parts[*index].len)))?;
        let header = header::move_sections(&kept.bytes, &kept.header, &ranges);
        Ok(Layout { header, ranges, len, is_kept: false })
    }

    /// Reads the header that would be written: what cannot be read back is not written.
    fn check(&self, layout: &Layout) -> std::result::Result<(), Inner> {
        let read = Header::parse(&layout.header, layout.len)?;
        let is_right = read.entries.iter().map(|entry| &entry.range).eq(&layout.ranges);
        if !is_right {
            let problem = "sections share their place in it, and cannot be moved".to_owned();
            return Err(Inner::Invalid { what: "header".to_owned(), problem });
        }
        Ok(())
    }
}

impl Kept<'_> {
    fn says(&self, version: Version, system: &[Item], sections: &[header::Said<'_>]) -> bool {
        let mine = self.header.entries.iter().map(|entry| (entry.kind, &entry.items[..]));
        self.header.version == version && self.header.system == system && mine.eq(sections.iter().copied())
    }
}

/// Where sections lie that follow each other behind a header of `at` bytes, by their index, and where the last ends.
fn place(
    header_len: u64,
    lens: impl ExactSizeIterator<Item = (usize, u64)>,
) -> std::result::Result<(Vec<Range<u64>>, u64), Inner> {
    let mut ranges = vec![0..0; lens.len()];
    let mut at = header_len;
    for (index, len) in lens {
        let begin = at.checked_next_multiple_of(BLOCK);
        let Some((begin, end)) = begin.and_then(|begin| Some((begin, begin.checked_add(len)?))) else {
            return Err(Inner::Unsupported { what: "the sections are longer than a file can be".to_owned() });
        };
        ranges[index] = begin..end;
        at = end;
    }
    Ok((ranges, at))
}

fn write_section(
    sink: &mut Sink<'_>,
    begin: u64,
    needed: u64,
    what: &str,
    part: Part<'_>,
) -> std::result::Result<Digest, Inner> {
    let source = |source| Inner::Source { what: what.to_owned(), source };
    if sink.at != begin {
        return Err(source(std::io::Error::other(format!(
            "lies at byte {begin}, where something else ends at {}",
            sink.at
        ))));
    }
    sink.begin(part.len);
    let told = Source::write(part.source, part.len, sink);
    settle(sink, needed, what, told)?;
    match sink.end() {
        (digest, 0) => Ok(digest),
        (_, missing) => {
            let message = format!("expected {} bytes, its source gave {}", part.len, part.len - missing);
            Err(source(std::io::Error::other(message)))
        }
    }
}

/// The error that a refusal of the sink or else the source's own word amounts to.
fn settle(sink: &mut Sink<'_>, needed: u64, what: &str, told: std::io::Result<()>) -> std::result::Result<(), Inner> {
    let written = sink.at;
    match (sink.refusal.take(), told) {
        (None, Ok(())) => Ok(()),
        (None, Err(source)) => Err(Inner::Source { what: what.to_owned(), source }),
        (Some(Refusal::Interrupted), _) => Err(Inner::Interrupted { written, needed }),
        (Some(Refusal::TooMany), _) => {
            let source = std::io::Error::other("its source gives more bytes than it was said to have");
            Err(Inner::Source { what: what.to_owned(), source })
        }
        (Some(Refusal::Failed(error)), _) if is_full(&error) => {
            // An `Output` knows better what reached the disk.
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Full>());
            Err(Inner::Full(Full { needed: Some(needed), ..inner.copied().unwrap_or(Full { written, needed: None }) }))
        }
        (Some(Refusal::Failed(error)), _) => Err(Inner::Write(error)),
    }
}
