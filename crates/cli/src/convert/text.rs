//! Reports for people: an outline or an outcome goes in, lines come out.

use std::io::{self, Write};

use kinglet_convert::report::{TensorReport, by_kind};
use kinglet_convert::{Conversion, Outcome, Outlined};

use crate::units;

pub(super) fn outline(
    out: &mut impl Write,
    conversion: &Conversion,
    sections: &[Outlined],
    size_bytes: u64,
) -> io::Result<()> {
    for (index, section) in sections.iter().enumerate() {
        writeln!(out, "section {index}  {:<24} {:>10}", section.kind, units::bytes(section.size_bytes))?;
    }
    let ladder: Vec<String> = conversion.choices().ladder.iter().map(usize::to_string).collect();
    writeln!(out, "ladder     {}", ladder.join(" "))?;
    writeln!(out, "bundle     {}, {size_bytes} bytes", units::bytes(size_bytes))?;
    let memory = units::bytes(conversion.memory_bytes());
    writeln!(out, "memory     {memory} beside the mapped files")
}

pub(super) fn tensors(out: &mut impl Write, tensors: &[TensorReport]) -> io::Result<()> {
    writeln!(
        out,
        "{:<36} {:<14} format        bytes   scales                  relative rms   largest error",
        "tensor", "shape"
    )?;
    for tensor in tensors {
        let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.5}"));
        let scales = tensor.scales.map_or("-".to_owned(), |[least, most]| format!("{least:.3e} to {most:.3e}"));
        writeln!(
            out,
            "{:<36} {:<14} {:<6} {:>12}   {scales:<22} {:>13}   {:>13}",
            tensor.name,
            shape.join("x"),
            tensor.format,
            tensor.bytes,
            number(tensor.relative_rms),
            number(tensor.max_error.map(f64::from)),
        )?;
    }
    writeln!(out)
}

pub(super) fn outcome(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(out, "kind        tensors  format       bytes   relative rms   largest error")?;
    for kind in by_kind(&outcome.tensors) {
        let rms = kind.worst_relative_rms.map_or("-".to_owned(), |rms| format!("{rms:.5}"));
        let max = kind.max_error.map_or("-".to_owned(), |max| format!("{max:.5}"));
        let (name, bytes) = (kind.kind.name(), units::bytes(kind.bytes));
        writeln!(out, "{name:<12}{:>7}  {:<6} {bytes:>11}   {rms:>12}   {max:>13}", kind.tensors, kind.format)?;
    }
    let bundle = &outcome.lock.bundle;
    writeln!(out, "bundle      {}, {} bytes", units::bytes(bundle.size_bytes), bundle.size_bytes)?;
    writeln!(out, "sha256      {}", bundle.sha256)
}

#[cfg(test)]
mod tests {
    use kinglet_convert::recipe::Kind;

    use super::*;

    #[test]
    fn a_tensor_is_listed_with_its_bytes_scales_and_errors() {
        let linear = TensorReport {
            name: "layers.0.up_proj".into(),
            kind: Kind::Mlp,
            shape: vec![512, 256],
            format: "i8",
            bytes: 133_120,
            scales: Some([0.001, 0.0625]),
            relative_rms: Some(0.0078125),
            max_error: Some(0.25),
        };
        let vector = TensorReport {
            name: "final_norm".into(),
            kind: Kind::Vectors,
            shape: vec![256],
            format: "f32",
            bytes: 1024,
            scales: None,
            relative_rms: None,
            max_error: None,
        };
        let mut text = Vec::new();
        tensors(&mut text, &[linear, vector]).expect("memory");
        let text = String::from_utf8(text).expect("text");
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected =
            ["layers.0.up_proj", "512x256", "i8", "133120", "1.000e-3", "to", "6.250e-2", "0.00781", "0.25000"];
        assert_eq!(words[1], expected);
        assert_eq!(words[2], ["final_norm", "256", "f32", "1024", "-", "-", "-"]);
    }
}
