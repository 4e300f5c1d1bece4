//! The container: the fixed header and its FlatBuffer go in, the checked description of the sections comes out.

use std::collections::HashSet;
use std::fmt::{Display, Formatter};
use std::ops::Range;

use kinglet_flat::{Field, Flat, Table};

use crate::error::Inner;
use crate::section::{Item, SectionKind, Value, label, model_type};

/// Sections begin on multiples of this many bytes.
pub const BLOCK: u64 = 16 * 1024;

/// Bytes before the header's FlatBuffer.
pub(crate) const FIXED: u64 = 32;
/// A header of some sections takes hundreds of bytes.
pub(crate) const HEADER_LIMIT: u64 = 4 << 20;
const SECTION_LIMIT: usize = 4096;
const ITEM_LIMIT: usize = 4096;
pub(crate) const MAGIC: &[u8; 8] = b"LITERTLM";

pub(crate) const SYSTEM: Field = Field::new("system_metadata", 0);
pub(crate) const SYSTEM_ENTRIES: Field = Field::new("entries", 0);
pub(crate) const SECTIONS: Field = Field::new("section_metadata", 1);
pub(crate) const SECTION_OBJECTS: Field = Field::new("objects", 0);
pub(crate) const ITEMS: Field = Field::new("items", 0);
pub(crate) const BEGIN: Field = Field::new("begin_offset", 1);
pub(crate) const END: Field = Field::new("end_offset", 2);
pub(crate) const DATA_TYPE: Field = Field::new("data_type", 3);
pub(crate) const KEY: Field = Field::new("key", 0);
pub(crate) const VALUE_TYPE: Field = Field::new("value_type", 1);
pub(crate) const VALUE: Field = Field::new("value", 2);
pub(crate) const INNER: Field = Field::new("value", 0);

/// Version of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes when old readers cannot read new files. 1 is read.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
    /// Changes otherwise.
    pub patch: u32,
}

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What the header of a bundle says.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) version: Version,
    /// Bytes of the file that it takes, the first [`FIXED`] included.
    pub(crate) len: u64,
    pub(crate) system: Vec<Item>,
    pub(crate) entries: Vec<Entry>,
    /// The first thing in it that [`Header`] does not hold.
    pub(crate) foreign: Option<String>,
}

/// What the header says of a section.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: SectionKind,
    pub(crate) items: Vec<Item>,
    /// Bytes of the file.
    pub(crate) range: Range<u64>,
    /// Bytes of the file at which the two ends of `range` are stored.
    pub(crate) stored_at: [u64; 2],
}

type Parsed<T> = Result<T, Inner>;

impl From<kinglet_flat::Error> for Inner {
    fn from(error: kinglet_flat::Error) -> Inner {
        Inner::Header(error)
    }
}

fn invalid(what: impl Into<String>, problem: impl Into<String>) -> Inner {
    Inner::Invalid { what: what.into(), problem: problem.into() }
}

impl Header {
    /// Checks the header of a file of `len` bytes that begins with `start`, which holds at least the header.
    pub(crate) fn parse(start: &[u8], len: u64) -> Parsed<Header> {
        let (version, end) = fixed_header(start, len)?;
        let flat = Flat::new(&start[FIXED as usize..end as usize], "LiteRTLMMetaData");
        let root = flat.root()?;
        let mut foreign = Foreign::default();
        foreign.look(root, 2, "the root table")?;
        let system = match root.table(SYSTEM)? {
            Some(system) => {
                foreign.look(system, 1, "the table of system metadata")?;
                items(system, SYSTEM_ENTRIES, &mut foreign)?
            }
            None => Vec::new(),
        };
        let sections = root.required_table(SECTIONS)?;
        foreign.look(sections, 1, "the table of sections")?;
        let objects = sections.tables(SECTION_OBJECTS)?;
        check_count(objects.len())?;
        let entries = objects.iter().enumerate();
        let entries: Vec<Entry> =
            entries.map(|(index, object)| entry(index, object?, end, len, &mut foreign)).collect::<Parsed<_>>()?;
        check_overlaps(&entries)?;
        check_duplicates(entries.iter().map(|entry| (entry.kind, &entry.items[..])))?;
        Ok(Header { version, len: end, system, entries, foreign: foreign.0 })
    }
}

/// Fields that a later schema may have added to a table and that are looked for one by one.
const SLOTS_AHEAD: u16 = 16;

/// Finds what a header holds beyond the schema as this version knows it.
#[derive(Default)]
struct Foreign(Option<String>);

impl Foreign {
    fn look(&mut self, table: Table<'_>, known: u16, what: &str) -> Parsed<()> {
        if table.slots() > known + SLOTS_AHEAD {
            self.note(format!("{} fields of {what}", table.slots()));
            return Ok(());
        }
        for slot in known..table.slots() {
            if table.has(Field::new("", slot))? {
                self.note(format!("field {slot} of {what}"));
            }
        }
        Ok(())
    }

    fn note(&mut self, what: String) {
        self.0.get_or_insert(what);
    }
}

pub(crate) fn check_count(sections: usize) -> Parsed<()> {
    if sections > SECTION_LIMIT {
        return Err(invalid("header", format!("expected at most {SECTION_LIMIT} sections, found {sections}")));
    }
    Ok(())
}

/// The version, and where the header ends: a byte of the file after the first [`FIXED`].
fn fixed_header(file: &[u8], len: u64) -> Parsed<(Version, u64)> {
    if !file.starts_with(MAGIC) {
        let start = &file[..file.len().min(MAGIC.len())];
        let found = if start.is_empty() { "an empty file".to_owned() } else { format!("`{}`", start.escape_ascii()) };
        return Err(Inner::NotABundle { found });
    }
    if len.min(file.len() as u64) < FIXED {
        return Err(Inner::Truncated { what: "header".to_owned(), end: FIXED, len });
    }
    let word = |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    let version = Version { major: word(8), minor: word(12), patch: word(16) };
    if version.major != 1 {
        return Err(Inner::Version { found: version });
    }
    let header_end = u64::from(word(24)) | u64::from(word(28)) << 32;
    if header_end <= FIXED || header_end > HEADER_LIMIT {
        let problem = format!("expected an end between {FIXED} and {HEADER_LIMIT}, found {header_end}");
        return Err(invalid("header", problem));
    }
    if header_end > len.min(file.len() as u64) {
        return Err(Inner::Truncated { what: "header".to_owned(), end: header_end, len });
    }
    Ok((version, header_end))
}

fn entry(index: usize, object: Table<'_>, header_end: u64, len: u64, foreign: &mut Foreign) -> Parsed<Entry> {
    let kind = SectionKind::from_number(object.scalar(DATA_TYPE, 0u8)?);
    let (begin, end) = (object.scalar(BEGIN, 0u64)?, object.scalar(END, 0u64)?);
    if end < begin {
        return Err(invalid(label(index, kind), format!("begins at byte {begin} and ends before it, at {end}")));
    }
    if begin < header_end {
        return Err(invalid(label(index, kind), format!("begins at byte {begin}, inside the header of {header_end}")));
    }
    if !begin.is_multiple_of(BLOCK) {
        return Err(invalid(label(index, kind), format!("begins at byte {begin}, expected a multiple of {BLOCK}")));
    }
    if end > len {
        return Err(Inner::Truncated { what: label(index, kind), end, len });
    }
    foreign.look(object, 4, &label(index, kind))?;
    // Both are stored: neither is the default, which lies inside the header.
    let place = |field| Ok::<u64, Inner>(FIXED + object.place::<u64>(field)?.unwrap_or_default());
    let stored_at = [place(BEGIN)?, place(END)?];
    Ok(Entry { kind, items: items(object, ITEMS, foreign)?, range: begin..end, stored_at })
}

fn items(table: Table<'_>, field: Field, foreign: &mut Foreign) -> Parsed<Vec<Item>> {
    let pairs = table.tables(field)?;
    if pairs.len() > ITEM_LIMIT {
        let message = format!("expected at most {ITEM_LIMIT} items, found {}", pairs.len());
        return Err(table.field_error(field, message).into());
    }
    let mut seen = HashSet::new();
    let mut found = Vec::with_capacity(pairs.len());
    for pair in pairs.iter() {
        let pair = pair?;
        let key = pair.required_string(KEY)?;
        if !seen.insert(key) {
            return Err(pair.field_error(KEY, format!("found a second item `{key}`")).into());
        }
        foreign.look(pair, 3, &format!("item `{key}`"))?;
        found.push(Item { key: key.to_owned(), value: value(pair, foreign)? });
    }
    Ok(found)
}

fn value(pair: Table<'_>, foreign: &mut Foreign) -> Parsed<Value> {
    let kind = pair.scalar(VALUE_TYPE, 0u8)?;
    if kind == 0 {
        return Ok(Value::None);
    }
    let inner = pair.required_table(VALUE)?;
    foreign.look(inner, 1, "a value")?;
    Ok(match kind {
        1 => Value::U8(inner.scalar(INNER, 0)?),
        2 => Value::I8(inner.scalar(INNER, 0)?),
        3 => Value::U16(inner.scalar(INNER, 0)?),
        4 => Value::I16(inner.scalar(INNER, 0)?),
        5 => Value::U32(inner.scalar(INNER, 0)?),
        6 => Value::I32(inner.scalar(INNER, 0)?),
        7 => Value::F32(inner.scalar(INNER, 0.0)?),
        8 => Value::Bool(inner.scalar(INNER, false)?),
        9 => Value::Text(inner.string(INNER)?.unwrap_or("").to_owned()),
        10 => Value::U64(inner.scalar(INNER, 0)?),
        11 => Value::I64(inner.scalar(INNER, 0)?),
        12 => Value::F64(inner.scalar(INNER, 0.0)?),
        other => {
            foreign.note(format!("a value of type {other}"));
            Value::Unknown(other)
        }
    })
}

fn check_overlaps(entries: &[Entry]) -> Parsed<()> {
    let label = |(index, entry): (usize, &Entry)| label(index, entry.kind);
    let mut sorted: Vec<(usize, &Entry)> = entries.iter().enumerate().filter(|(_, e)| !e.range.is_empty()).collect();
    sorted.sort_by_key(|(_, entry)| entry.range.start);
    for pair in sorted.windows(2) {
        let [first, second] = pair else { continue };
        let (end, begin) = (first.1.range.end, second.1.range.start);
        if end > begin {
            let problem = format!("begins at byte {begin}, before {} ends at {end}", label(*first));
            return Err(invalid(label(*second), problem));
        }
    }
    Ok(())
}

pub(crate) fn check_duplicates<'a>(sections: impl Iterator<Item = (SectionKind, &'a [Item])>) -> Parsed<()> {
    let mut seen = HashSet::new();
    for (index, (kind, items)) in sections.enumerate().filter(|(_, (kind, _))| kind.is_unique()) {
        let model_type = model_type(items);
        if !seen.insert((kind, model_type)) {
            let model_type = model_type.map(|t| format!(" with model_type `{t}`")).unwrap_or_default();
            return Err(invalid(label(index, kind), format!("is the second of its kind{model_type}")));
        }
    }
    Ok(())
}
