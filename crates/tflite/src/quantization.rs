//! Affine quantisation of a tensor: `value = scale * (integer - zero_point)`.

/// Scales and zero points of a tensor, one or one per index of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// One, or as many as the dimension is long.
    pub scales: Vec<f32>,
    /// None (all zero), one, or as many as scales.
    pub zero_points: Vec<i64>,
    /// The dimension that the scales run along.
    pub dimension: usize,
}

impl Quantization {
    /// Whether all zero points are zero.
    pub fn is_symmetric(&self) -> bool {
        self.zero_points.iter().all(|z| *z == 0)
    }
}
