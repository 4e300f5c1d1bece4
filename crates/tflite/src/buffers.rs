//! Where constants lie: in the FlatBuffer, behind it, or in a companion file; places are checked, bytes are not read.

use std::collections::HashMap;
use std::ops::Range;

use kinglet_blob::Blob;
use kinglet_flat::Table;

use crate::error::Inner;
use crate::parse::limited;
use crate::{Result, limits, schema};

/// Where the bytes of each buffer are in the model's bytes; `None` for an empty one.
pub(crate) fn read_buffers(root: Table<'_>, len: u64) -> Result<Vec<Option<Range<u64>>>> {
    use schema::buffer::*;
    let buffers = limited(root, schema::model::BUFFERS, limits::BUFFERS)?;
    let mut places = Vec::with_capacity(buffers.len());
    for (index, table) in buffers.iter().enumerate() {
        let table = table?;
        let offset = table.scalar(OFFSET, 0u64)?;
        let inline = table.bytes(DATA, 1)?.filter(|data| !data.bytes.is_empty());
        let place = match inline {
            // 1 is a placeholder that writers leave in a buffer with no bytes elsewhere.
            Some(data) if offset <= 1 => Some(data.start..data.start + data.bytes.len() as u64),
            Some(_) => return Err(table.field_error(OFFSET, "expected bytes in one place, found two").into()),
            None if offset > 1 => {
                let size = table.scalar(SIZE, 0u64)?;
                let end = offset.saturating_add(size);
                if end > len {
                    let what = format!("Model.buffers[{index}]");
                    return Err(Inner::Outside { what, start: offset, end, place: "the section", len }.into());
                }
                (size > 0).then_some(offset..end)
            }
            None => None,
        };
        places.push(place);
    }
    Ok(places)
}

/// Constants in the companion file, by their identifier.
pub(crate) fn read_externals(root: Table<'_>, external: Option<&Blob>) -> Result<HashMap<u32, Range<u64>>> {
    use schema::external_buffer::*;
    let buffers = limited(root, schema::model::EXTERNAL_BUFFERS, limits::ENTRIES)?;
    let groups = limited(root, schema::model::EXTERNAL_GROUPS, limits::ENTRIES)?;
    let mut places = HashMap::new();
    if buffers.is_empty() {
        return Ok(places);
    }
    let Some(external) = external else {
        let what = format!("{} constants lie in a companion file of weights, which is absent", buffers.len());
        return Err(Inner::External { what }.into());
    };
    if groups.len() > 1 {
        let what = format!("expected one companion file of weights, found {}", groups.len());
        return Err(Inner::External { what }.into());
    }
    for (index, table) in buffers.iter().enumerate() {
        let table = table?;
        let packing = table.string(PACKING)?.unwrap_or("");
        if !matches!(packing, "" | "unpacked") {
            return Err(table.field_error(PACKING, format!("expected `unpacked`, found `{packing}`")).into());
        }
        let group = table.scalar(GROUP, 0u32)?;
        if group != 0 {
            return Err(table.field_error(GROUP, format!("expected group 0, found {group}")).into());
        }
        let start = table.scalar(OFFSET, 0u64)?;
        let end = start.saturating_add(table.scalar(LENGTH, 0u64)?);
        if end > external.len() as u64 {
            let what = format!("Model.external_buffers[{index}]");
            let len = external.len() as u64;
            return Err(Inner::Outside { what, start, end, place: "the companion file", len }.into());
        }
        let id = table.scalar(ID, 0u32)?;
        if id == 0 || places.insert(id, start..end).is_some() {
            return Err(table.field_error(ID, format!("expected a new identifier above 0, found {id}")).into());
        }
    }
    Ok(places)
}
