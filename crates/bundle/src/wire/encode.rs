//! Writing the protocol-buffer encoding: numbered fields go in, bytes come out, in the order in which they were given.

use std::ops::Range;

use super::{Fault, Reader, Unknown};

/// A message that gives its fields one at a time, by number, and last those that it does not know.
pub(crate) trait Encode {
    /// Gives all fields.
    fn encode(&self, to: &mut Encoder);

    /// The encoded message.
    fn encoded(&self) -> Vec<u8> {
        let mut encoder = Encoder::default();
        self.encode(&mut encoder);
        encoder.0
    }
}

/// Takes the fields of a message. Where a value is an `Option`, `None` writes nothing; where the schema has no presence,
/// zero and empty write nothing.
#[derive(Default)]
pub(crate) struct Encoder(Vec<u8>);

const VARINT: u32 = 0;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

impl Encoder {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number) << 3 | u64::from(wire_type));
    }

    pub(crate) fn int64(&mut self, number: u32, value: Option<i64>) {
        if let Some(value) = value {
            self.tag(number, VARINT);
            self.varint(value as u64);
        }
    }

    /// Negative numbers take 64 bits, as the encoding demands.
    pub(crate) fn int32(&mut self, number: u32, value: Option<i32>) {
        self.int64(number, value.map(i64::from));
    }

    pub(crate) fn plain_int32(&mut self, number: u32, value: i32) {
        self.int32(number, (value != 0).then_some(value));
    }

    pub(crate) fn bool(&mut self, number: u32, value: Option<bool>) {
        self.int64(number, value.map(i64::from));
    }

    pub(crate) fn plain_float(&mut self, number: u32, value: f32) {
        // -0 is not the default: it is told from 0 by its bits.
        if value.to_bits() != 0 {
            self.tag(number, FIXED32);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn bytes(&mut self, number: u32, value: &[u8]) {
        self.tag(number, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, number: u32, value: Option<&str>) {
        if let Some(value) = value {
            self.bytes(number, value.as_bytes());
        }
    }

    pub(crate) fn plain_text(&mut self, number: u32, value: &str) {
        self.text(number, (!value.is_empty()).then_some(value));
    }

    pub(crate) fn messages<'m, M: Encode + 'm>(&mut self, number: u32, messages: impl IntoIterator<Item = &'m M>) {
        messages.into_iter().for_each(|message| self.bytes(number, &message.encoded()));
    }

    /// A run of numbers in one field.
    pub(crate) fn packed_int32s(&mut self, number: u32, values: &[i32]) {
        if values.is_empty() {
            return;
        }
        let mut run = Encoder::default();
        values.iter().for_each(|value| run.varint(i64::from(*value) as u64));
        self.bytes(number, &run.0);
    }

    pub(crate) fn unknown(&mut self, unknown: &Unknown) {
        self.0.extend_from_slice(unknown.bytes());
    }
}

/// Number and place of each field of a message called `name`.
fn spans(bytes: &[u8], name: &str) -> Result<Vec<(u32, Range<usize>)>, Fault> {
    let mut reader = Reader { bytes, at: 0, base: 0, path: name };
    let mut spans = Vec::new();
    loop {
        let start = reader.at;
        let Some(field) = reader.next()? else { return Ok(spans) };
        spans.push((field.number, start..reader.at));
    }
}

/// The message `bytes` called `name` with all of its fields `number` taken out and those of the message `from` put in
/// the place of the first, or before the first higher number. Every other byte stays.
pub(crate) fn replace(bytes: &[u8], name: &str, number: u32, from: &[u8]) -> Result<Vec<u8>, Fault> {
    let fields = spans(bytes, name)?;
    let fresh: Vec<u8> = spans(from, name)?
        .into_iter()
        .filter(|(its, _)| *its == number)
        .flat_map(|(_, span)| &from[span])
        .copied()
        .collect();
    let first = fields.iter().position(|(its, _)| *its == number);
    let place = first.or_else(|| fields.iter().position(|(its, _)| *its > number)).unwrap_or(fields.len());
    let kept = |fields: &[(u32, Range<usize>)]| -> Vec<u8> {
        fields.iter().filter(|(its, _)| *its != number).flat_map(|(_, span)| &bytes[span.clone()]).copied().collect()
    };
    Ok([kept(&fields[..place]), fresh, kept(&fields[place..])].concat())
}
