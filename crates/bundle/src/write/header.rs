//! The header on its way back: what is said of the sections and where they lie goes in, its bytes come out.

use std::ops::Range;

use kinglet_flat::write::{Table, finish};

use super::Part;
use crate::container::{
    BEGIN, DATA_TYPE, END, FIXED, HEADER_LIMIT, Header, INNER, ITEMS, KEY, MAGIC, SECTION_OBJECTS, SECTIONS, SYSTEM,
    SYSTEM_ENTRIES, VALUE, VALUE_TYPE, Version,
};
use crate::error::Inner;
use crate::section::{Item, SectionKind, Value};

/// What is said of a section.
pub(super) type Said<'s> = (SectionKind, &'s [Item]);

pub(super) fn said<'s>(parts: &'s [Part<'_>]) -> Vec<Said<'s>> {
    parts.iter().map(|part| (part.kind, &part.items[..])).collect()
}

/// The bytes of a header; there are as many of them wherever the sections lie.
pub(super) fn encode(
    version: Version,
    system: &[Item],
    sections: &[Said<'_>],
    ranges: &[Range<u64>],
) -> Result<Vec<u8>, Inner> {
    let objects = sections.iter().zip(ranges).map(|((kind, items), range)| {
        Table::new()
            .with(ITEMS, pairs(items))
            .with(BEGIN, range.start)
            .with(END, range.end)
            .with(DATA_TYPE, kind.number())
    });
    let root = Table::new()
        .with(SYSTEM, Table::new().with(SYSTEM_ENTRIES, pairs(system)))
        .with(SECTIONS, Table::new().with(SECTION_OBJECTS, objects.collect::<Vec<_>>()));
    let too_long =
        |len: u64| Inner::Unsupported { what: format!("the header would have {len} bytes, of at most {HEADER_LIMIT}") };
    let flat = finish(&root, None).map_err(|error| too_long(error.0 as u64))?;
    let end = FIXED + flat.len() as u64;
    if end > HEADER_LIMIT {
        return Err(too_long(end));
    }
    let mut bytes = MAGIC.to_vec();
    for word in [version.major, version.minor, version.patch, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&end.to_le_bytes());
    bytes.extend_from_slice(&flat);
    Ok(bytes)
}

fn pairs(items: &[Item]) -> Vec<Table> {
    items.iter().map(pair).collect()
}

fn pair(item: &Item) -> Table {
    let value = match &item.value {
        Value::None | Value::Unknown(_) => None,
        Value::U8(value) => Some(Table::new().with(INNER, *value)),
        Value::I8(value) => Some(Table::new().with(INNER, *value)),
        Value::U16(value) => Some(Table::new().with(INNER, *value)),
        Value::I16(value) => Some(Table::new().with(INNER, *value)),
        Value::U32(value) => Some(Table::new().with(INNER, *value)),
        Value::I32(value) => Some(Table::new().with(INNER, *value)),
        Value::F32(value) => Some(Table::new().with(INNER, *value)),
        Value::Bool(value) => Some(Table::new().with(INNER, *value)),
        Value::Text(value) => Some(Table::new().with(INNER, value.as_str())),
        Value::U64(value) => Some(Table::new().with(INNER, *value)),
        Value::I64(value) => Some(Table::new().with(INNER, *value)),
        Value::F64(value) => Some(Table::new().with(INNER, *value)),
    };
    Table::new().with(KEY, item.key.as_str()).with(VALUE_TYPE, item.value.type_number()).with_some(VALUE, value)
}

/// The header `bytes` with other places for its sections.
pub(super) fn move_sections(bytes: &[u8], header: &Header, ranges: &[Range<u64>]) -> Vec<u8> {
    let mut moved = bytes.to_vec();
    for (entry, range) in header.entries.iter().zip(ranges) {
        for (at, value) in entry.stored_at.iter().zip([range.start, range.end]) {
            // The numbers were read from there.
            moved[*at as usize..*at as usize + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    moved
}
