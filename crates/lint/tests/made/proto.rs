//! Protocol buffers, written: a field number and a value go in, bytes come out.

fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub(crate) fn varint(field: u64, value: u64) -> Vec<u8> {
    [number(field << 3), number(value)].concat()
}

pub(crate) fn message(field: u64, body: &[u8]) -> Vec<u8> {
    [number(field << 3 | 2), number(body.len() as u64), body.to_vec()].concat()
}

pub(crate) fn text(field: u64, value: &str) -> Vec<u8> {
    message(field, value.as_bytes())
}
