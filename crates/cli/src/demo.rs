//! The model that is part of the program: nothing goes in, the files of a small checkpoint come out, aligned so that
//! their tensors are used where they lie.

/// Bytes at an address that suits every tensor.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! file {
    ($name:literal) => {{
        static BYTES: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!("../../../models/demo/", $name)));
        ($name, &BYTES.0)
    }};
}

/// What messages call it.
pub(crate) const NAME: &str = "demo";

/// Its files, as `(name, bytes)`.
pub(crate) static FILES: &[(&str, &[u8])] = &[
    file!("config.json"),
    file!("generation_config.json"),
    file!("tokenizer.json"),
    file!("tokenizer_config.json"),
    file!("chat_template.jinja"),
    file!("model.safetensors"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_there_and_aligned() {
        for (name, bytes) in FILES {
            assert!(!bytes.is_empty(), "{name}");
            assert_eq!(bytes.as_ptr() as usize % 64, 0, "{name}");
        }
    }
}
