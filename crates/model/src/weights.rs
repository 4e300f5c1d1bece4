//! Weights: matrices as ranges of mapped files and small vectors in memory, each checked against its shape once; no
//! arithmetic on activations.

use kinglet_blob::Blob;

use crate::error::{Error, Result};

/// How a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Signed bytes with one scale per row.
    I8,
}

impl Format {
    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::Bf16 | Format::F16 => 2,
            Format::I8 => 1,
        }
    }
}

/// A weight matrix `[rows, columns]`, row-major, usually a range of a mapped file.
#[derive(Clone, Debug)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    format: Format,
    data: Blob,
    scales: Vec<f32>,
}

/// Some rows of a [`Matrix`].
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// IEEE single precision, `[r, columns]`.
    F32(&'a [f32]),
    /// Bit patterns of bfloat16.
    Bf16(&'a [u16]),
    /// Bit patterns of IEEE half precision.
    F16(&'a [u16]),
    /// Signed bytes, and one scale per row.
    I8(&'a [i8], &'a [f32]),
}

impl Matrix {
    /// A float matrix over `data`, which is copied only if its address is not aligned for its type.
    pub fn float(name: &str, rows: usize, columns: usize, format: Format, data: Blob) -> Result<Matrix> {
        debug_assert!(format != Format::I8, "an integer matrix has scales");
        Matrix::checked(name, rows, columns, format, data, Vec::new())
    }

    /// An int8 matrix with one scale per row.
    pub fn int8(name: &str, rows: usize, columns: usize, data: Blob, scales: Vec<f32>) -> Result<Matrix> {
        if scales.len() != rows {
            return Err(Error::tensor(name, format!("{rows} scales"), scales.len().to_string()));
        }
        if let Some(bad) = scales.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
            return Err(Error::tensor(
                name,
                "scales that are finite and not negative",
                format!("{} in row {bad}", scales[bad]),
            ));
        }
        Matrix::checked(name, rows, columns, Format::I8, data, scales)
    }

    fn checked(
        name: &str,
        rows: usize,
        columns: usize,
        format: Format,
        data: Blob,
        scales: Vec<f32>,
    ) -> Result<Matrix> {
        let bytes = rows.checked_mul(columns).and_then(|n| n.checked_mul(format.bytes()));
        if bytes != Some(data.len()) || data.is_empty() {
            return Err(Error::tensor(
                name,
                format!("[{rows}, {columns}] of {} bytes each", format.bytes()),
                format!("{} bytes", data.len()),
            ));
        }
        let data =
            if (data.as_ptr() as usize).is_multiple_of(format.bytes()) { data } else { Blob::from_vec(data.to_vec()) };
        Ok(Matrix { rows, columns, format, data, scales })
    }

    /// Number of rows: outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How the values are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// `count` rows from row `first` on.
    pub fn slice(&self, first: usize, count: usize) -> Rows<'_> {
        let row = self.columns * self.format.bytes();
        let bytes = &self.data[first * row..(first + count) * row];
        match self.format {
            Format::F32 => Rows::F32(bytemuck::cast_slice(bytes)),
            Format::Bf16 => Rows::Bf16(bytemuck::cast_slice(bytes)),
            Format::F16 => Rows::F16(bytemuck::cast_slice(bytes)),
            Format::I8 => Rows::I8(bytemuck::cast_slice(bytes), &self.scales[first..first + count]),
        }
    }

    /// Writes row `row` as `f32` into `out`, `[columns]`.
    pub fn read_row(&self, row: usize, out: &mut [f32]) {
        match self.slice(row, 1) {
            Rows::F32(w) => out.copy_from_slice(w),
            Rows::Bf16(w) => out.iter_mut().zip(w).for_each(|(o, w)| *o = f32::from_bits(u32::from(*w) << 16)),
            Rows::F16(w) => out.iter_mut().zip(w).for_each(|(o, w)| *o = half::f16::from_bits(*w).to_f32()),
            Rows::I8(w, scales) => out.iter_mut().zip(w).for_each(|(o, w)| *o = f32::from(*w) * scales[0]),
        }
    }

    /// Lets the operating system take back the memory that the values of a mapped file are in; they can be read as
    /// before.
    pub fn release(&self) {
        self.data.release();
    }

    /// Bytes in a mapped file, and bytes in memory of our own.
    pub fn footprint(&self) -> Footprint {
        let scales = 4 * self.scales.len() as u64;
        let data = self.data.len() as u64;
        if self.data.is_mapped() {
            Footprint { mapped: data, owned: scales }
        } else {
            Footprint { mapped: 0, owned: data + scales }
        }
    }
}

/// Bytes that weights take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// In mapped files: the operating system reads and drops them as it likes.
    pub mapped: u64,
    /// In memory of this process.
    pub owned: u64,
}

impl std::iter::Sum for Footprint {
    fn sum<I: Iterator<Item = Footprint>>(parts: I) -> Footprint {
        parts.fold(Footprint::default(), |a, b| Footprint { mapped: a.mapped + b.mapped, owned: a.owned + b.owned })
    }
}

/// `gate`, `up` `[ffn, hidden]`, `down` `[hidden, ffn]`.
#[derive(Clone, Debug)]
pub struct Mlp {
    /// Goes through SiLU.
    pub gate: Matrix,
    /// Is multiplied with it.
    pub up: Matrix,
    /// Back to the model width.
    pub down: Matrix,
}

/// Weights of a gated attention mixer.
#[derive(Clone, Debug)]
pub struct AttentionWeights {
    /// `[heads * 2 * head_dim, hidden]`: per head the query, then its gate.
    pub query: Matrix,
    /// `[kv_heads * head_dim, hidden]`.
    pub key: Matrix,
    /// `[kv_heads * head_dim, hidden]`.
    pub value: Matrix,
    /// `[hidden, heads * head_dim]`.
    pub output: Matrix,
    /// `[head_dim]`, the full multiplier.
    pub query_norm: Vec<f32>,
    /// `[head_dim]`, the full multiplier.
    pub key_norm: Vec<f32>,
}

/// Weights of a gated delta-rule mixer.
#[derive(Clone, Debug)]
pub struct DeltaWeights {
    /// `[channels, hidden]`: queries, keys, values.
    pub qkv: Matrix,
    /// `[value_heads * value_dim, hidden]`: the output gate.
    pub z: Matrix,
    /// `[value_heads, hidden]`: the decay.
    pub a: Matrix,
    /// `[value_heads, hidden]`: the write strength.
    pub b: Matrix,
    /// `[hidden, value_heads * value_dim]`.
    pub output: Matrix,
    /// `[taps, channels]`, oldest tap first.
    pub conv: Vec<f32>,
    /// `-exp(A_log)`, `[value_heads]`.
    pub decay_rate: Vec<f32>,
    /// `[value_heads]`.
    pub dt_bias: Vec<f32>,
    /// `[value_dim]`, the full multiplier of the gated norm.
    pub norm: Vec<f32>,
}

/// Weights of a mixer.
#[derive(Clone, Debug)]
pub enum MixerWeights {
    /// Of a [`Mixer::GatedAttention`](crate::Mixer::GatedAttention).
    Attention(AttentionWeights),
    /// Of a [`Mixer::GatedDeltaNet`](crate::Mixer::GatedDeltaNet).
    Delta(DeltaWeights),
}

/// Weights of one layer. Norms hold the full multiplier: a checkpoint's zero-centred `w` is stored as `1 + w`.
#[derive(Clone, Debug)]
pub struct Layer {
    /// `[hidden]`, before the mixer.
    pub input_norm: Vec<f32>,
    /// The mixer.
    pub mixer: MixerWeights,
    /// `[hidden]`, before the MLP.
    pub mlp_norm: Vec<f32>,
    /// The MLP.
    pub mlp: Mlp,
}

/// All weights of a text model.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[vocab, hidden]`.
    pub embedding: Matrix,
    /// One per layer of the plan.
    pub layers: Vec<Layer>,
    /// `[hidden]`, before the head.
    pub final_norm: Vec<f32>,
    /// `[vocab, hidden]`; absent where the embedding serves.
    pub head: Option<Matrix>,
}

impl Layer {
    /// Lets the operating system take back the memory that the matrices of a mapped file are in.
    pub fn release(&self) {
        let mixer = match &self.mixer {
            MixerWeights::Attention(w) => [&w.query, &w.key, &w.value, &w.output],
            MixerWeights::Delta(w) => [&w.qkv, &w.z, &w.a, &w.output],
        };
        let mlp = [&self.mlp.gate, &self.mlp.up, &self.mlp.down];
        mixer.into_iter().chain(mlp).for_each(Matrix::release);
    }
}

impl Weights {
    /// The matrix that turns the last hidden state into logits.
    pub fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// All matrices, with a short name each.
    pub fn matrices(&self) -> impl Iterator<Item = (String, &Matrix)> {
        let layers = self.layers.iter().enumerate().flat_map(|(i, layer)| {
            let mixer = match &layer.mixer {
                MixerWeights::Attention(w) => {
                    vec![("q_proj", &w.query), ("k_proj", &w.key), ("v_proj", &w.value), ("o_proj", &w.output)]
                }
                MixerWeights::Delta(w) => vec![
                    ("in_proj_qkv", &w.qkv),
                    ("in_proj_z", &w.z),
                    ("in_proj_a", &w.a),
                    ("in_proj_b", &w.b),
                    ("out_proj", &w.output),
                ],
            };
            let mlp = [("gate_proj", &layer.mlp.gate), ("up_proj", &layer.mlp.up), ("down_proj", &layer.mlp.down)];
            mixer.into_iter().chain(mlp).map(move |(name, matrix)| (format!("layers.{i}.{name}"), matrix))
        });
        std::iter::once(("embed_tokens".to_owned(), &self.embedding))
            .chain(layers)
            .chain(self.head.as_ref().map(|head| ("lm_head".to_owned(), head)))
    }

    /// Bytes of all matrices.
    pub fn footprint(&self) -> Footprint {
        self.matrices().map(|(_, matrix)| matrix.footprint()).sum()
    }
}
