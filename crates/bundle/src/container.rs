//! The container: the fixed header and its FlatBuffer go in, checked sections come out.

use std::collections::HashSet;
use std::fmt::{Display, Formatter};

use kinglet_blob::Blob;
use kinglet_flat::{Field, Flat, Table};

use crate::error::Inner;
use crate::section::{Item, Section, SectionKind, Value, label};

/// Sections begin on multiples of this many bytes.
pub const BLOCK: u64 = 16 * 1024;

/// Bytes before the header's FlatBuffer.
const FIXED: u64 = 32;
/// A header of some sections takes hundreds of bytes.
const HEADER_LIMIT: u64 = 4 << 20;
const SECTION_LIMIT: usize = 4096;
const ITEM_LIMIT: usize = 4096;
const MAGIC: &[u8; 8] = b"LITERTLM";

const SYSTEM: Field = Field::new("system_metadata", 0);
const SYSTEM_ENTRIES: Field = Field::new("entries", 0);
const SECTIONS: Field = Field::new("section_metadata", 1);
const SECTION_OBJECTS: Field = Field::new("objects", 0);
const ITEMS: Field = Field::new("items", 0);
const BEGIN: Field = Field::new("begin_offset", 1);
const END: Field = Field::new("end_offset", 2);
const DATA_TYPE: Field = Field::new("data_type", 3);
const KEY: Field = Field::new("key", 0);
const VALUE_TYPE: Field = Field::new("value_type", 1);
const VALUE: Field = Field::new("value", 2);
const INNER: Field = Field::new("value", 0);

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
pub(crate) struct Container {
    pub(crate) version: Version,
    pub(crate) system: Vec<Item>,
    pub(crate) sections: Vec<Section>,
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

impl Container {
    pub(crate) fn parse(file: &Blob) -> Parsed<Container> {
        let (version, header_end) = fixed_header(file)?;
        let flat = Flat::new(&file[FIXED as usize..header_end as usize], "LiteRTLMMetaData");
        let root = flat.root()?;
        let system = match root.table(SYSTEM)? {
            Some(system) => items(system, SYSTEM_ENTRIES)?,
            None => Vec::new(),
        };
        let objects = root.required_table(SECTIONS)?.tables(SECTION_OBJECTS)?;
        if objects.len() > SECTION_LIMIT {
            return Err(invalid(
                "header",
                format!("expected at most {SECTION_LIMIT} sections, found {}", objects.len()),
            ));
        }
        let sections = objects.iter().enumerate();
        let sections: Vec<Section> =
            sections.map(|(index, object)| section(index, object?, file, header_end)).collect::<Parsed<_>>()?;
        check_overlaps(&sections)?;
        check_duplicates(&sections)?;
        Ok(Container { version, system, sections })
    }
}

/// The version, and where the header ends: a byte of the file after the first [`FIXED`].
fn fixed_header(file: &[u8]) -> Parsed<(Version, u64)> {
    let len = file.len() as u64;
    if !file.starts_with(MAGIC) {
        let start = &file[..file.len().min(MAGIC.len())];
        let found = if start.is_empty() { "an empty file".to_owned() } else { format!("`{}`", start.escape_ascii()) };
        return Err(Inner::NotABundle { found });
    }
    if len < FIXED {
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
    if header_end > len {
        return Err(Inner::Truncated { what: "header".to_owned(), end: header_end, len });
    }
    Ok((version, header_end))
}

fn section(index: usize, object: Table<'_>, file: &Blob, header_end: u64) -> Parsed<Section> {
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
    let len = file.len() as u64;
    if end > len {
        return Err(Inner::Truncated { what: label(index, kind), end, len });
    }
    let data = file.slice(begin as usize..end as usize).expect("begin <= end <= the length of the file");
    Ok(Section { index, kind, items: items(object, ITEMS)?, range: begin..end, data })
}

fn items(table: Table<'_>, field: Field) -> Parsed<Vec<Item>> {
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
        found.push(Item { key: key.to_owned(), value: value(pair)? });
    }
    Ok(found)
}

fn value(pair: Table<'_>) -> Parsed<Value> {
    let kind = pair.scalar(VALUE_TYPE, 0u8)?;
    if kind == 0 {
        return Ok(Value::None);
    }
    let inner = pair.required_table(VALUE)?;
    Ok(match kind {
        1 => Value::Unsigned(inner.scalar(INNER, 0u8)?.into()),
        2 => Value::Signed(inner.scalar(INNER, 0i8)?.into()),
        3 => Value::Unsigned(inner.scalar(INNER, 0u16)?.into()),
        4 => Value::Signed(inner.scalar(INNER, 0i16)?.into()),
        5 => Value::Unsigned(inner.scalar(INNER, 0u32)?.into()),
        6 => Value::Signed(inner.scalar(INNER, 0i32)?.into()),
        7 => Value::Float(inner.scalar(INNER, 0f32)?),
        8 => Value::Bool(inner.scalar(INNER, false)?),
        9 => Value::Text(inner.string(INNER)?.unwrap_or("").to_owned()),
        10 => Value::Unsigned(inner.scalar(INNER, 0u64)?),
        11 => Value::Signed(inner.scalar(INNER, 0i64)?),
        12 => Value::Double(inner.scalar(INNER, 0f64)?),
        other => Value::Unknown(other),
    })
}

fn check_overlaps(sections: &[Section]) -> Parsed<()> {
    let mut sorted: Vec<&Section> = sections.iter().filter(|s| !s.range.is_empty()).collect();
    sorted.sort_by_key(|s| s.range.start);
    for pair in sorted.windows(2) {
        let [first, second] = pair else { continue };
        if first.range.end > second.range.start {
            let problem =
                format!("begins at byte {}, before {} ends at {}", second.range.start, first.label(), first.range.end);
            return Err(invalid(second.label(), problem));
        }
    }
    Ok(())
}

fn check_duplicates(sections: &[Section]) -> Parsed<()> {
    let mut seen = HashSet::new();
    for section in sections.iter().filter(|s| s.kind.is_unique()) {
        if !seen.insert((section.kind, section.model_type())) {
            let model_type = section.model_type().map(|t| format!(" with model_type `{t}`")).unwrap_or_default();
            return Err(invalid(section.label(), format!("is the second of its kind{model_type}")));
        }
    }
    Ok(())
}
