//! The compressed tokenizer: a size and a zlib stream go in, exactly that many bytes come out, and back.

use std::io::{Read, Write};

/// Most bytes that a tokenizer may unpack to: three times what Qwen3.5 has, and twice the largest of other families.
pub const TOKENIZER_LIMIT: u64 = 64 << 20;

/// Bytes that one byte of a deflate stream can become at most, rounded up.
const EXPANSION: u64 = 1033;

/// Unpacks a section: the unpacked size in 8 bytes, then a zlib stream that fills the rest. Memory grows with what
/// really comes out, and no further than one byte beyond the stated size.
pub(crate) fn inflate(section: &[u8]) -> Result<Vec<u8>, String> {
    let Some((size, stream)) = section.split_first_chunk::<8>() else {
        return Err(format!("expected 8 bytes of size and a zlib stream, found {} bytes", section.len()));
    };
    let size = u64::from_le_bytes(*size);
    if size > TOKENIZER_LIMIT {
        return Err(format!("expected at most {TOKENIZER_LIMIT} bytes when unpacked, the section states {size}"));
    }
    if size > (stream.len() as u64).saturating_mul(EXPANSION) {
        return Err(format!("{} compressed bytes cannot become the {size} that the section states", stream.len()));
    }
    let mut decoder = flate2::bufread::ZlibDecoder::new(stream);
    let mut unpacked = Vec::new();
    let read = decoder.by_ref().take(size + 1).read_to_end(&mut unpacked);
    if let Err(error) = read {
        return Err(format!("zlib stream: {error} after {} of {size} bytes", unpacked.len()));
    }
    if unpacked.len() as u64 != size {
        let found = if unpacked.len() as u64 > size { "more".to_owned() } else { unpacked.len().to_string() };
        return Err(format!("the section states {size} bytes when unpacked, the zlib stream holds {found}"));
    }
    let used = decoder.total_in();
    if used != stream.len() as u64 {
        return Err(format!("the zlib stream ends after {used} of {} bytes", stream.len()));
    }
    Ok(unpacked)
}

/// The compression of the official writer: a third of the time of the best, for a hundredth more bytes.
const LEVEL: u32 = 6;

/// The section of a tokenizer: what is unpacked from it is `json`, byte for byte. One text gives one section, on every
/// machine.
pub(crate) fn deflate(json: &[u8]) -> Vec<u8> {
    let size = (json.len() as u64).to_le_bytes().to_vec();
    let mut encoder = flate2::write::ZlibEncoder::new(size, flate2::Compression::new(LEVEL));
    encoder.write_all(json).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(stated: u64, text: &[u8]) -> Vec<u8> {
        let mut section = deflate(text);
        section[..8].copy_from_slice(&stated.to_le_bytes());
        section
    }

    #[test]
    fn a_section_that_states_its_size_is_unpacked() {
        assert_eq!(inflate(&section(5, b"hello")).expect("sound"), b"hello");
        assert_eq!(inflate(&section(0, b"")).expect("sound"), b"");
    }

    #[test]
    fn each_lie_about_the_size_is_told_by_its_numbers() {
        let zeros = vec![0; 1 << 20];
        let mut trailing = section(5, b"hello");
        trailing.push(0);
        let mut cut = section(5, b"hello");
        cut.truncate(12);
        let cases: [(Vec<u8>, &str); 8] = [
            (vec![1; 7], "expected 8 bytes of size and a zlib stream, found 7 bytes"),
            (section(4, b"hello"), "states 4 bytes when unpacked, the zlib stream holds more"),
            (section(6, b"hello"), "states 6 bytes when unpacked, the zlib stream holds 5"),
            (section(1000, &zeros), "states 1000 bytes when unpacked, the zlib stream holds more"),
            (section(TOKENIZER_LIMIT + 1, b"hello"), "expected at most 67108864 bytes"),
            (section(TOKENIZER_LIMIT, b"hello"), "cannot become the 67108864"),
            (trailing, "ends after 13 of 14 bytes"),
            (cut, "zlib stream: "),
        ];
        for (bytes, expected) in cases {
            let message = inflate(&bytes).expect_err(expected);
            assert!(message.contains(expected), "{message} / {expected}");
        }
    }
}
