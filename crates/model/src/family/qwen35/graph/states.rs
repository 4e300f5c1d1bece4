//! The tensors that the graph carries from call to call: their names give the layers, their shapes the dimensions.

use std::collections::BTreeMap;

use super::network::Network;
use crate::error::{Error, Result};

/// Dimensions that the caches of attention layers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttentionShape {
    pub(super) kv_heads: usize,
    pub(super) positions: usize,
    pub(super) head_dim: usize,
}

/// Dimensions that the states of delta-rule layers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeltaShape {
    pub(super) channels: usize,
    /// Columns of the convolution state: the taps, or one less.
    pub(super) columns: usize,
    pub(super) value_heads: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
}

impl DeltaShape {
    /// Queries and keys fill what the values leave of the channels.
    pub(super) fn key_heads(&self) -> Result<usize> {
        let both = self.channels.checked_sub(self.value_heads * self.value_dim);
        both.filter(|both| self.key_dim > 0 && both.is_multiple_of(2 * self.key_dim))
            .map(|both| both / (2 * self.key_dim))
            .ok_or_else(|| {
                let expected =
                    format!("{} values and twice a multiple of {}", self.value_heads * self.value_dim, self.key_dim);
                Error::plan("channels of the convolution", expected, self.channels)
            })
    }
}

/// The new states of a layer, as tensors of the graph.
#[derive(Clone, Copy, Debug)]
pub(super) enum LayerStates {
    Attention { keys: usize, values: usize },
    Delta { convolution: usize, recurrent: usize },
}

/// The states of all layers, first layer first.
#[derive(Debug)]
pub(super) struct States {
    pub(super) layers: Vec<LayerStates>,
    pub(super) attention: AttentionShape,
    pub(super) delta: DeltaShape,
}

const PREFIX: &str = "kv_cache_";
/// A model has hundreds of layers at most.
const LAYER_LIMIT: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Keys,
    Values,
    Convolution,
    Recurrent,
}

/// `kv_cache_k_3` is the keys of layer 3. The two dialects call the delta-rule states `c`, `r` and `lc`, `lr`.
fn part(name: &str) -> Option<(Part, usize)> {
    let (kind, layer) = name.strip_prefix(PREFIX)?.rsplit_once('_')?;
    let kind = match kind {
        "k" => Part::Keys,
        "v" => Part::Values,
        "c" | "lc" => Part::Convolution,
        "r" | "lr" => Part::Recurrent,
        _ => return None,
    };
    Some((kind, layer.parse().ok().filter(|layer| *layer < LAYER_LIMIT)?))
}

impl States {
    /// Finds the states of a graph; `family` is what the bundle says of itself, for the message that it is another.
    pub(super) fn find(network: &Network<'_>, family: &str) -> Result<States> {
        let inputs = &network.signature.inputs;
        let mut found: BTreeMap<usize, BTreeMap<Part, (usize, usize)>> = BTreeMap::new();
        for (name, input) in inputs.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let Some((kind, layer)) = part(name) else {
                return Err(another_family(network, family, &format!("a state `{name}`")));
            };
            let Some(output) = network.signature.output(name) else {
                return Err(Error::plan(&format!("state `{name}`"), "an output of that name".into(), "none"));
            };
            if network.tensor(*input).shape != network.tensor(output).shape {
                let (expected, shape) = (network.tensor(*input).shape, network.tensor(output).shape);
                return Err(Error::plan(&format!("state `{name}`"), format!("{expected} out as in"), shape));
            }
            if found.entry(layer).or_default().insert(kind, (*input, output)).is_some() {
                return Err(Error::plan(&format!("state `{name}`"), "one of its kind".into(), "two"));
            }
        }
        let (mut layers, mut attention, mut delta) = (Vec::new(), None, None);
        for (expected, (layer, parts)) in found.iter().enumerate() {
            if *layer != expected {
                return Err(Error::plan("states", format!("layer {expected} next"), format!("layer {layer}")));
            }
            layers.push(layer_states(network, *layer, parts, &mut attention, &mut delta)?);
        }
        match (attention, delta) {
            (Some(attention), Some(delta)) => Ok(States { layers, attention, delta }),
            (Some(_), None) => Err(another_family(network, family, "no delta-rule states")),
            (None, Some(_)) => Err(another_family(network, family, "no attention layer")),
            (None, None) => Err(another_family(network, family, "no states")),
        }
    }
}

fn layer_states(
    network: &Network<'_>,
    layer: usize,
    parts: &BTreeMap<Part, (usize, usize)>,
    attention: &mut Option<AttentionShape>,
    delta: &mut Option<DeltaShape>,
) -> Result<LayerStates> {
    let shape = |kind: Part| parts.get(&kind).map(|(input, _)| network.tensor(*input).shape);
    let out = |kind: Part| parts[&kind].1;
    let all = [Part::Keys, Part::Values, Part::Convolution, Part::Recurrent].map(shape);
    match all.each_ref().map(Option::as_deref) {
        [Some(&[1, kv, positions, dim]), Some(&[1, kv_of_values, dim_of_values, positions_of_values]), None, None]
            if (kv, positions, dim) == (kv_of_values, positions_of_values, dim_of_values) =>
        {
            let found = AttentionShape { kv_heads: kv as usize, positions: positions as usize, head_dim: dim as usize };
            agree(attention, found, layer)?;
            Ok(LayerStates::Attention { keys: out(Part::Keys), values: out(Part::Values) })
        }
        [None, None, Some(&[1, channels, columns]), Some(&[1, heads, key_dim, value_dim])] => {
            let found = DeltaShape {
                channels: channels as usize,
                columns: columns as usize,
                value_heads: heads as usize,
                key_dim: key_dim as usize,
                value_dim: value_dim as usize,
            };
            agree(delta, found, layer)?;
            Ok(LayerStates::Delta { convolution: out(Part::Convolution), recurrent: out(Part::Recurrent) })
        }
        found => Err(Error::plan(
            &format!("states of layer {layer}"),
            "keys [1, n, s, d] and values [1, n, d, s], or convolution [1, c, k] and recurrent [1, h, d, d]".into(),
            format!("{found:?}"),
        )),
    }
}

/// All layers of a kind have the same dimensions.
fn agree<S: Copy + PartialEq + std::fmt::Debug>(first: &mut Option<S>, found: S, layer: usize) -> Result<()> {
    match *first.get_or_insert(found) {
        same if same == found => Ok(()),
        other => Err(Error::plan(&format!("states of layer {layer}"), format!("{other:?}"), format!("{found:?}"))),
    }
}

fn another_family(network: &Network<'_>, family: &str, found: &str) -> Error {
    let names: Vec<&str> = network.signature.inputs.iter().map(|(name, _)| name.as_str()).take(12).collect();
    let more = if network.signature.inputs.len() > names.len() { ", ..." } else { "" };
    let what = format!(
        "the graph is not of the Qwen3.5 family{family}: expected attention caches and delta-rule states, found {found} \
         among [{}{more}]",
        names.join(", ")
    );
    Error::unsupported(what, Some("Qwen3.5 0.8B, 2B and 4B run here, in either dialect of the exporter".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects_name_the_same_parts() {
        let cases = [
            ("kv_cache_k_3", Some((Part::Keys, 3))),
            ("kv_cache_v_31", Some((Part::Values, 31))),
            ("kv_cache_c_0", Some((Part::Convolution, 0))),
            ("kv_cache_lc_0", Some((Part::Convolution, 0))),
            ("kv_cache_r_12", Some((Part::Recurrent, 12))),
            ("kv_cache_lr_12", Some((Part::Recurrent, 12))),
            ("kv_cache_x_1", None),
            ("kv_cache_k_", None),
            ("kv_cache_k_99999999999999999999", None),
            ("mask", None),
        ];
        for (name, expected) in cases {
            assert_eq!(part(name), expected, "{name}");
        }
    }
}
