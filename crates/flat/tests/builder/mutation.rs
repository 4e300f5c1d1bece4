//! Spoiled copies of sound files: a seed goes in, the same damage comes out each time.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses a part of it")]

use std::ops::Range;

/// A small generator of numbers, enough to choose damage.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }
}

/// Damages one to four places of `bytes[range]`. Text is passed over where possible: offsets and lengths, of which
/// readers must be afraid, are mostly not letters.
pub fn damage(bytes: &mut [u8], range: Range<usize>, numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(4) {
        let mut at = range.start + numbers.below(range.len());
        for _ in 0..4096 {
            if at + 1 >= range.end || !(b' '..=b'~').contains(&bytes[at]) {
                break;
            }
            at += 1;
        }
        let width = [1, 2, 4, 8][numbers.below(4)].min(range.end - at);
        let whole = bytes.len() as u64;
        let values = [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX, whole, whole - 1];
        let value = values[numbers.below(values.len())];
        match numbers.below(4) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at] = numbers.below(256) as u8,
            2 => bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]),
            _ => {
                let from = range.start + numbers.below(range.len() - width + 1);
                bytes.copy_within(from..from + width, at);
            }
        }
    }
}
