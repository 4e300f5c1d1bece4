//! Numbers for people: bytes, counts and times go in, short text with a unit comes out.

use std::time::Duration;

/// `1.2 GiB`, `340 KiB`, `17 B`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `6.7 M`, `752.4 M`, `12`.
pub(crate) fn count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{:.1} k", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", count as f64 / 1e6),
        _ => format!("{:.2} G", count as f64 / 1e9),
    }
}

/// `12.3 ms` or `4.56 s`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// Milliseconds, to a thousandth.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_the_unit_that_suits_them() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB"), ((1 << 30) - 1, "1.0 GiB")];
        for (given, expected) in cases {
            assert_eq!(bytes(given), expected);
        }
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        for (given, expected) in [(9_999, "9999"), (10_000, "10.0 k"), (6_700_000, "6.7 M"), (4_210_000_000, "4.21 G")]
        {
            assert_eq!(count(given), expected);
        }
        assert_eq!(time(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(time(Duration::from_millis(4_560)), "4.56 s");
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.235);
    }
}
