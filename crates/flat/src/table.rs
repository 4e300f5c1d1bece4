//! Tables: a position goes in, the values of its fields come out, each checked to lie in the table and the buffer.

use crate::trail::Trail;
use crate::vector::{Bytes, Scalars, Tables};
use crate::{Error, Flat, Problem, Result, Scalar, TABLE_COST};

/// A field of a table: what messages call it, and its slot in the vtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    slot: u16,
}

impl Field {
    /// Field number `slot` of a table, in the order of the schema, from 0.
    pub const fn new(name: &'static str, slot: u16) -> Field {
        Field { name, slot }
    }

    /// What messages call it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn slot(&self) -> u16 {
        self.slot
    }
}

/// A table whose own bytes and vtable lie in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Table<'f> {
    flat: &'f Flat<'f>,
    position: u64,
    len: u64,
    vtable: u64,
    slots: u16,
    trail: Trail,
}

impl<'f> Table<'f> {
    pub(crate) fn read(flat: &'f Flat<'f>, position: u64, trail: Trail) -> Result<Table<'f>> {
        if trail.too_deep() {
            return Err(trail.here().error(position, Problem::Depth));
        }
        flat.charge(position, TABLE_COST, trail.here())?;
        let distance = i64::from(flat.read::<i32>(position, trail.here(), "table")?);
        let Some(vtable) = position.checked_add_signed(-distance) else {
            return Err(trail.here().error(position, Problem::VtableLink { distance }));
        };
        let size: u16 = flat.read(vtable, trail.here(), "vtable")?;
        let len: u16 = flat.read(vtable + 2, trail.here(), "vtable")?;
        if size < 4 || !size.is_multiple_of(2) || len < 4 {
            return Err(trail.here().error(vtable, Problem::VtableSize { vtable: size, table: len }));
        }
        flat.take(vtable, u64::from(size), trail.here(), "vtable")?;
        flat.take(position, u64::from(len), trail.here(), "table")?;
        Ok(Table { flat, position, len: u64::from(len), vtable, slots: (size - 4) / 2, trail })
    }

    /// Byte of the buffer at which the table begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// A refusal of this table by its reader, with the path and the byte.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.trail.here().error(self.position, Problem::Value(message.into()))
    }

    /// A refusal of the value of one field by its reader, with the path and the byte.
    pub fn field_error(&self, field: Field, message: impl Into<String>) -> Error {
        let at = self.locate(field, 0).ok().flatten().unwrap_or(self.position);
        self.trail.field(field.name).error(at, Problem::Value(message.into()))
    }

    /// Slots of its vtable: fields from this slot on are not stored.
    pub fn slots(&self) -> u16 {
        self.slots
    }

    /// The byte of the buffer at which the number in `field` lies, `None` where it is not stored.
    pub fn place<S: Scalar>(&self, field: Field) -> Result<Option<u64>> {
        self.locate(field, S::SIZE)
    }

    /// Whether the field is stored.
    pub fn has(&self, field: Field) -> Result<bool> {
        Ok(self.locate(field, 0)?.is_some())
    }

    /// The number in `field`, or `default` where it is not stored.
    pub fn scalar<S: Scalar>(&self, field: Field, default: S) -> Result<S> {
        match self.locate(field, S::SIZE)? {
            Some(position) => self.flat.read(position, self.trail.field(field.name), "number"),
            None => Ok(default),
        }
    }

    /// The table that `field` points at.
    pub fn table(&self, field: Field) -> Result<Option<Table<'f>>> {
        let position = self.target(field, "table offset")?;
        position.map(|position| Table::read(self.flat, position, self.trail.then(field.name))).transpose()
    }

    /// As [`table`](Table::table), for a field that must be stored.
    pub fn required_table(&self, field: Field) -> Result<Table<'f>> {
        self.table(field)?.ok_or_else(|| self.missing(field))
    }

    /// The vector of tables in `field`; an absent one is empty.
    pub fn tables(&self, field: Field) -> Result<Tables<'f>> {
        let trail = self.trail.then(field.name);
        let span = self.span(field, 4)?;
        Ok(Tables { flat: self.flat, trail, start: span.0, len: span.1 })
    }

    /// The vector of numbers in `field`; an absent one is empty.
    pub fn scalars<S: Scalar>(&self, field: Field) -> Result<Scalars<'f, S>> {
        let (start, len) = self.span(field, S::SIZE)?;
        let place = self.trail.field(field.name);
        self.flat.charge(start, u64::from(len) * S::SIZE, place)?;
        Ok(Scalars::new(self.flat.take(start, u64::from(len) * S::SIZE, place, "vector")?))
    }

    /// The vector of `width`-byte elements in `field` as bytes with their place, `None` where it is not stored.
    pub fn bytes(&self, field: Field, width: u32) -> Result<Option<Bytes<'f>>> {
        if self.locate(field, 4)?.is_none() {
            return Ok(None);
        }
        let (start, len) = self.span(field, u64::from(width))?;
        let bytes = self.flat.take(start, u64::from(len) * u64::from(width), self.trail.field(field.name), "vector")?;
        Ok(Some(Bytes { start, bytes }))
    }

    /// The string in `field`, `None` where it is not stored.
    pub fn string(&self, field: Field) -> Result<Option<&'f str>> {
        let Some(found) = self.bytes(field, 1)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(found.bytes);
        text.map(Some).map_err(|_| self.trail.field(field.name).error(found.start, Problem::NotUtf8))
    }

    /// As [`string`](Table::string), for a field that must be stored.
    pub fn required_string(&self, field: Field) -> Result<&'f str> {
        self.string(field)?.ok_or_else(|| self.missing(field))
    }

    fn missing(&self, field: Field) -> Error {
        self.trail.field(field.name).error(self.position, Problem::Missing)
    }

    /// The byte at which `field` lies, `None` where it is not stored; `size` bytes of it are inside the table.
    fn locate(&self, field: Field, size: u64) -> Result<Option<u64>> {
        if field.slot >= self.slots {
            return Ok(None);
        }
        let entry = self.vtable + 4 + 2 * u64::from(field.slot);
        let start = u64::from(self.flat.read::<u16>(entry, self.trail.here(), "vtable")?);
        if start == 0 {
            return Ok(None);
        }
        if start < 4 || start + size > self.len {
            let problem = Problem::FieldOutside { start, end: start + size, len: self.len };
            return Err(self.trail.field(field.name).error(self.position + start, problem));
        }
        Ok(Some(self.position + start))
    }

    fn target(&self, field: Field, what: &'static str) -> Result<Option<u64>> {
        let Some(position) = self.locate(field, 4)? else {
            return Ok(None);
        };
        self.flat.offset(position, self.trail.field(field.name), what).map(Some)
    }

    /// Where the elements of a vector begin, and how many there are: all inside the buffer.
    fn span(&self, field: Field, width: u64) -> Result<(u64, u32)> {
        let Some(position) = self.target(field, "vector offset")? else {
            return Ok((self.position, 0));
        };
        let place = self.trail.field(field.name);
        let len: u32 = self.flat.read(position, place, "vector length")?;
        self.flat.take(position + 4, u64::from(len) * width, place, "vector")?;
        Ok((position + 4, len))
    }
}
