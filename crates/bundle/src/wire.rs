//! The protocol-buffer encoding: bytes go in, numbered fields come out, and back; fields that nobody asked for are kept
//! as they were written.

mod encode;

pub(crate) use encode::{Encode, Encoder, replace};

/// A fault in a protocol buffer: the field, the byte of the section, the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} at byte {offset}: {problem}")]
pub struct Fault {
    path: String,
    offset: usize,
    problem: String,
}

/// Fields that this version does not know, one after another in the order and encoding of the file.
///
/// A writer that appends them to what it writes loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown(Vec<u8>);

impl Unknown {
    /// The encoded fields.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Their numbers.
    pub fn numbers(&self) -> Vec<u32> {
        let mut reader = Reader { bytes: &self.0, at: 0, base: 0, path: "" };
        std::iter::from_fn(|| reader.next().ok().flatten().map(|field| field.number)).collect()
    }
}

impl serde::Serialize for Unknown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.numbers())
    }
}

/// A message that takes its fields one at a time.
pub(crate) trait Message: Default {
    /// Takes a field and says whether it knew it.
    fn field(&mut self, field: Field<'_>) -> Result<bool, Fault>;

    /// Where fields go that it did not know.
    fn unknown(&mut self) -> &mut Unknown;
}

/// Reads a whole message called `name`.
pub(crate) fn decode<M: Message>(bytes: &[u8], name: &'static str) -> Result<M, Fault> {
    let mut message = M::default();
    merge(&mut message, bytes, 0, name)?;
    Ok(message)
}

fn merge<M: Message>(message: &mut M, bytes: &[u8], base: usize, path: &str) -> Result<(), Fault> {
    let mut reader = Reader { bytes, at: 0, base, path };
    loop {
        let start = reader.at;
        let Some(field) = reader.next()? else { return Ok(()) };
        if !message.field(field)? {
            message.unknown().0.extend_from_slice(&bytes[start..reader.at]);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Payload<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// A field: its number, and a value that is read as what the message says it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    payload: Payload<'a>,
    /// First byte of the value in the section.
    offset: usize,
    path: &'a str,
}

/// Entries that a repeated field may have.
const REPEATED_LIMIT: usize = 1 << 16;

impl<'a> Field<'a> {
    pub(crate) fn int32(&self, name: &str) -> Result<i32, Fault> {
        // Negative numbers are stored as 64 bits; the upper half says nothing.
        self.varint(name).map(|value| value as i32)
    }

    pub(crate) fn int64(&self, name: &str) -> Result<i64, Fault> {
        self.varint(name).map(|value| value as i64)
    }

    pub(crate) fn bool(&self, name: &str) -> Result<bool, Fault> {
        self.varint(name).map(|value| value != 0)
    }

    pub(crate) fn float(&self, name: &str) -> Result<f32, Fault> {
        match self.payload {
            Payload::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err(self.mismatch(name, "four bytes")),
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<&'a [u8], Fault> {
        match self.payload {
            Payload::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch(name, "a length and bytes")),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, Fault> {
        let text = std::str::from_utf8(self.bytes(name)?);
        text.map(str::to_owned).map_err(|_| self.fault(name, "the string is not utf-8"))
    }

    /// Reads a message into `message`: one that is stored in pieces is put together, as the encoding demands.
    pub(crate) fn message<M: Message>(&self, name: &str, message: &mut M) -> Result<(), Fault> {
        merge(message, self.bytes(name)?, self.offset, &format!("{}.{name}", self.path))
    }

    /// Appends one message to a repeated field.
    pub(crate) fn push<M: Message>(&self, name: &str, list: &mut Vec<M>) -> Result<(), Fault> {
        if list.len() == REPEATED_LIMIT {
            return Err(self.fault(name, &format!("expected at most {REPEATED_LIMIT} entries")));
        }
        let mut message = M::default();
        self.message(&format!("{name}[{}]", list.len()), &mut message)?;
        list.push(message);
        Ok(())
    }

    /// Appends one number, or a packed run of them, to a repeated field.
    pub(crate) fn push_int32(&self, name: &str, list: &mut Vec<i32>) -> Result<(), Fault> {
        let Payload::Bytes(bytes) = self.payload else {
            list.push(self.int32(name)?);
            return Ok(());
        };
        let path = format!("{}.{name}", self.path);
        let mut reader = Reader { bytes, at: 0, base: self.offset, path: &path };
        while reader.at < bytes.len() {
            list.push(reader.varint()? as i32);
        }
        Ok(())
    }

    fn varint(&self, name: &str) -> Result<u64, Fault> {
        match self.payload {
            Payload::Varint(value) => Ok(value),
            _ => Err(self.mismatch(name, "a number")),
        }
    }

    fn mismatch(&self, name: &str, expected: &str) -> Fault {
        let found = match self.payload {
            Payload::Varint(_) => "a number",
            Payload::Fixed64 => "eight bytes",
            Payload::Bytes(_) => "a length and bytes",
            Payload::Fixed32(_) => "four bytes",
        };
        self.fault(name, &format!("expected {expected}, found {found}"))
    }

    fn fault(&self, name: &str, problem: &str) -> Fault {
        Fault { path: format!("{}.{name}", self.path), offset: self.offset, problem: problem.to_owned() }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begin in the section.
    base: usize,
    path: &'a str,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, Fault> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| (1..1 << 29).contains(n));
        let Some(number) = number else {
            return Err(self.fault(format!("expected a field number, found {}", tag >> 3)));
        };
        let mut offset = self.base + self.at;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Payload::Fixed64
            }
            2 => {
                let len = self.varint()?;
                offset = self.base + self.at;
                Payload::Bytes(self.take(len)?)
            }
            5 => {
                let bits = self.take(4)?.try_into().expect("four bytes were taken");
                Payload::Fixed32(u32::from_le_bytes(bits))
            }
            other => return Err(self.fault(format!("field {number} has the unknown wire type {other}"))),
        };
        Ok(Some(Field { number, payload, offset, path: self.path }))
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else {
                return Err(self.fault("the message ends inside a number".to_owned()));
            };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.fault("a number has more than 64 bits".to_owned()))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = usize::try_from(len).ok().and_then(|len| rest.get(..len)) else {
            return Err(self.fault(format!("a field of {len} bytes in a message that has {} left", rest.len())));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn fault(&self, problem: String) -> Fault {
        Fault { path: self.path.to_owned(), offset: self.base + self.at, problem }
    }
}
