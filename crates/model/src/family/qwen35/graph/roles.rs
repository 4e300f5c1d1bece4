//! Which linear plays which part: told from what each state and each norm depends on.

use std::collections::HashSet;

use super::network::{Linear, Network, op};
use super::norms::Norms;
use super::states::{LayerStates, States};
use crate::error::{Error, Result};

/// Linears and norms of a layer, by index.
#[derive(Debug)]
pub(super) struct LayerRoles {
    pub(super) input_norm: usize,
    pub(super) mixer: MixerRoles,
    pub(super) mlp_norm: usize,
    pub(super) gate: usize,
    pub(super) up: usize,
    pub(super) down: usize,
}

#[derive(Debug)]
pub(super) enum MixerRoles {
    Attention(AttentionRoles),
    Delta(DeltaRoles),
}

#[derive(Debug)]
pub(super) struct AttentionRoles {
    pub(super) query: usize,
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) output: usize,
    pub(super) query_norm: usize,
    pub(super) key_norm: usize,
}

#[derive(Debug)]
pub(super) struct DeltaRoles {
    pub(super) qkv: usize,
    pub(super) z: usize,
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) output: usize,
    /// Index of the operator.
    pub(super) convolution: usize,
    /// Index of the tensor.
    pub(super) decay_rate: usize,
    pub(super) norm: usize,
}

/// Parts of all linears.
#[derive(Debug)]
pub(super) struct Roles {
    pub(super) layers: Vec<LayerRoles>,
    pub(super) final_norm: usize,
    pub(super) head: usize,
}

impl Roles {
    pub(super) fn assign(network: &Network<'_>, states: &States, norms: &Norms) -> Result<Roles> {
        let finder = Finder::new(network, norms);
        // What the residual stream has been added so far: it tells the layers apart and puts them in order.
        let mut residual = Vec::new();
        let mut layers = Vec::with_capacity(states.layers.len());
        for (layer, states) in states.layers.iter().enumerate() {
            layers.push(finder.layer(layer, *states, &mut residual)?);
        }
        let (final_norm, heads) = finder.readers(&residual, "the final norm")?;
        let [head] = heads[..] else {
            return Err(Error::plan("final norm", "one linear behind it".into(), heads.len()));
        };
        let logits = network.signature.output("logits").map(|logits| network.origin(logits));
        if logits != Some(network.linear(head).output) {
            return Err(Error::plan("output `logits`", "made by the last linear".into(), "another tensor"));
        }
        let roles = Roles { layers, final_norm, head };
        finder.refuse_unused(&roles)?;
        Ok(roles)
    }

    /// Every linear with its layer and what checkpoints call it.
    fn named(&self) -> Vec<(usize, Option<usize>, &'static str)> {
        let mut named = vec![(self.head, None, "lm_head")];
        for (i, layer) in self.layers.iter().enumerate() {
            let mlp = [(layer.gate, "gate_proj"), (layer.up, "up_proj"), (layer.down, "down_proj")];
            let mixer = match &layer.mixer {
                MixerRoles::Attention(m) => {
                    vec![(m.query, "q_proj"), (m.key, "k_proj"), (m.value, "v_proj"), (m.output, "o_proj")]
                }
                MixerRoles::Delta(m) => vec![
                    (m.qkv, "in_proj_qkv"),
                    (m.z, "in_proj_z"),
                    (m.a, "in_proj_a"),
                    (m.b, "in_proj_b"),
                    (m.output, "out_proj"),
                ],
            };
            named.extend(mixer.into_iter().chain(mlp).map(|(linear, name)| (linear, Some(i), name)));
        }
        named
    }
}

struct Finder<'n, 'm> {
    network: &'n Network<'m>,
    norms: &'n Norms,
    /// For each linear the norm that it reads, if it reads one.
    reads: Vec<Option<usize>>,
    /// For each linear what its input depends on.
    inputs: Vec<Vec<usize>>,
    /// Tensors that go through a LOGISTIC.
    gated: HashSet<usize>,
}

impl<'n, 'm> Finder<'n, 'm> {
    fn new(network: &'n Network<'m>, norms: &'n Norms) -> Finder<'n, 'm> {
        let logistics = network.nodes().iter().filter(|node| node.is(op::LOGISTIC));
        Finder {
            network,
            norms,
            reads: network.linears().iter().map(|linear| norms.making(network, linear.input)).collect(),
            inputs: network.linears().iter().map(|linear| network.sources(linear.input)).collect(),
            gated: logistics.filter_map(|node| node.input(0)).map(|input| network.origin(input)).collect(),
        }
    }

    fn layer(&self, layer: usize, states: LayerStates, residual: &mut Vec<usize>) -> Result<LayerRoles> {
        let what = |part: &str| format!("layer {layer}: {part}");
        let (input_norm, readers) = self.readers(residual, &what("input norm"))?;
        let (mixer, output, expected) = match states {
            LayerStates::Attention { keys, values } => {
                let m = self.attention(layer, keys, values)?;
                let (output, expected) = (m.output, vec![m.query, m.key, m.value]);
                (MixerRoles::Attention(m), output, expected)
            }
            LayerStates::Delta { convolution, recurrent } => {
                let m = self.delta(layer, convolution, recurrent)?;
                let (output, expected) = (m.output, vec![m.qkv, m.z, m.a, m.b]);
                (MixerRoles::Delta(m), output, expected)
            }
        };
        self.same_set(readers, expected, &what("linears behind the input norm"))?;
        insert(residual, output);
        let (mlp_norm, readers) = self.readers(residual, &what("norm before the MLP"))?;
        let (gate, up) = match readers[..] {
            [a, b] if self.is_gated(a) && !self.is_gated(b) => (a, b),
            [a, b] if self.is_gated(b) && !self.is_gated(a) => (b, a),
            _ => {
                return Err(Error::plan(&what("MLP"), "two linears, one of them gated".into(), format!("{readers:?}")));
            }
        };
        let down = self.unique(|inputs| *inputs == readers, &what("down_proj"))?;
        insert(residual, down);
        Ok(LayerRoles { input_norm, mixer, mlp_norm, gate, up, down })
    }

    fn attention(&self, layer: usize, keys: usize, values: usize) -> Result<AttentionRoles> {
        let what = |part: &str| format!("layer {layer}: {part}");
        let [key] = self.network.sources(keys)[..] else {
            return Err(Error::plan(&what("keys"), "one linear".into(), self.network.sources(keys).len()));
        };
        let [value] = self.network.sources(values)[..] else {
            return Err(Error::plan(&what("values"), "one linear".into(), self.network.sources(values).len()));
        };
        let has = |inputs: &Vec<usize>| inputs.len() == 3 && inputs.contains(&key) && inputs.contains(&value);
        let output = self.unique(has, &what("o_proj"))?;
        let query = self.inputs[output].iter().copied().find(|linear| *linear != key && *linear != value);
        let Some(query) = query.filter(|_| key != value) else {
            return Err(Error::plan(&what("attention"), "queries, keys and values".into(), "fewer linears"));
        };
        let query_norm = self.norms.of_sources(self.network, &[query], &what("q_norm"))?;
        let key_norm = self.norms.of_sources(self.network, &[key], &what("k_norm"))?;
        Ok(AttentionRoles { query, key, value, output, query_norm, key_norm })
    }

    fn delta(&self, layer: usize, convolution: usize, recurrent: usize) -> Result<DeltaRoles> {
        let what = |part: &str| format!("layer {layer}: {part}");
        let [qkv] = self.network.sources(convolution)[..] else {
            let found = self.network.sources(convolution).len();
            return Err(Error::plan(&what("convolution state"), "one linear".into(), found));
        };
        let inner = self.network.sources(recurrent);
        let gates: Vec<usize> = inner.iter().copied().filter(|linear| *linear != qkv).collect();
        let has_bias = |linear: usize| self.network.linear(linear).bias.is_some();
        let (a, b) = match gates[..] {
            [a, b] if has_bias(a) && !has_bias(b) => (a, b),
            [b, a] if has_bias(a) && !has_bias(b) => (a, b),
            _ => {
                let expected = "in_proj_qkv, in_proj_b and, with a bias, in_proj_a".into();
                return Err(Error::plan(&what("recurrent state"), expected, format!("{} linears", inner.len())));
            }
        };
        if !self.is_gated(b) || self.is_gated(a) {
            return Err(Error::plan(&what("write strength"), "in_proj_b through LOGISTIC".into(), "another graph"));
        }
        let has = |inputs: &Vec<usize>| inputs.len() == 4 && inner.iter().all(|linear| inputs.contains(linear));
        let output = self.unique(has, &what("out_proj"))?;
        let z = self.inputs[output].iter().copied().find(|linear| !inner.contains(linear));
        let z = z.expect("four linears, three of them known");
        Ok(DeltaRoles {
            convolution: self.convolution(qkv, &what("convolution"))?,
            decay_rate: self.decay_rate(a, &what("A_log"))?,
            norm: self.norms.of_sources(self.network, &inner, &what("norm of the delta rule"))?,
            qkv,
            z,
            a,
            b,
            output,
        })
    }

    /// The convolution over what `qkv` makes.
    fn convolution(&self, qkv: usize, what: &str) -> Result<usize> {
        let fits = |input: Option<usize>| input.is_some_and(|input| self.network.sources(input) == [qkv]);
        let mut found = self.network.nodes().iter().enumerate();
        let mut found = found.by_ref().filter(|(_, node)| node.is(op::DEPTHWISE_CONV) && fits(node.input(0)));
        match (found.next(), found.next()) {
            (Some((node, _)), None) => Ok(node),
            _ => Err(Error::plan(what, "one DEPTHWISE_CONV_2D behind in_proj_qkv".into(), "another graph")),
        }
    }

    /// The constant vector that multiplies what `a` makes.
    fn decay_rate(&self, a: usize, what: &str) -> Result<usize> {
        let products = self.network.nodes().iter().filter(|node| node.is(op::MUL));
        let mut found = products.filter_map(|node| self.network.with_constant(node)).filter(|(computed, constant)| {
            self.network.tensor(*constant).shape.elements() > 1 && self.network.sources(*computed) == [a]
        });
        match (found.next(), found.next()) {
            (Some((_, constant)), None) => Ok(constant),
            _ => Err(Error::plan(what, "one constant times what in_proj_a makes".into(), "another graph")),
        }
    }

    /// The norm over a residual stream with these additions, and the linears that read it.
    fn readers(&self, residual: &[usize], what: &str) -> Result<(usize, Vec<usize>)> {
        let norm = self.norms.of_sources(self.network, residual, what)?;
        let readers = self.reads.iter().enumerate().filter(|(_, reads)| **reads == Some(norm));
        Ok((norm, readers.map(|(linear, _)| linear).collect()))
    }

    fn is_gated(&self, linear: usize) -> bool {
        self.gated.contains(&self.network.linear(linear).output)
    }

    /// The one linear whose input depends on such linears.
    fn unique(&self, fits: impl Fn(&Vec<usize>) -> bool, what: &str) -> Result<usize> {
        let mut found = self.inputs.iter().enumerate().filter(|(_, inputs)| fits(inputs));
        match (found.next(), found.next()) {
            (Some((linear, _)), None) => Ok(linear),
            (None, _) => Err(Error::plan(what, "a linear".into(), "none")),
            _ => Err(Error::plan(what, "one linear".into(), "several")),
        }
    }

    fn same_set(&self, found: Vec<usize>, mut expected: Vec<usize>, what: &str) -> Result<()> {
        expected.sort_unstable();
        if found == expected {
            return Ok(());
        }
        let names = |linears: &[usize]| {
            let names: Vec<String> =
                linears.iter().map(|l| self.network.name(self.network.linear(*l).weight)).collect();
            names.join(", ")
        };
        Err(Error::plan(what, names(&expected), names(&found)))
    }

    /// Every linear has one part, no other than its name says, and a bias only where the family has one.
    fn refuse_unused(&self, roles: &Roles) -> Result<()> {
        let mut unused: HashSet<usize> = (0..self.network.linears().len()).collect();
        for (linear, layer, part) in roles.named() {
            let Linear { weight, bias, .. } = *self.network.linear(linear);
            if !unused.remove(&linear) {
                return Err(Error::tensor(&self.network.name(weight), "one part in the model", "two"));
            }
            if bias.is_some() && part != "in_proj_a" {
                return Err(Error::tensor(&self.network.name(weight), format!("{part} without a bias"), "one with"));
            }
            let name = self.network.model.name(self.network.tensor(weight));
            if let Some((named_layer, named_part)) = spoken(&name).filter(|_| part != "lm_head")
                && (named_part != part || named_layer.is_some_and(|named| Some(named) != layer))
            {
                let graph = format!("{part} of layer {}, as the graph has it", layer.unwrap_or(0));
                return Err(Error::tensor(&self.network.name(weight), graph, format!("`{named_part}` in its name")));
            }
        }
        match unused.iter().min() {
            Some(linear) => {
                let weight = self.network.linear(*linear).weight;
                let found = format!("{} in none", self.network.tensor(weight).shape);
                Err(Error::tensor(&self.network.name(weight), "a part in the model", found))
            }
            None => Ok(()),
        }
    }
}
fn insert(sorted: &mut Vec<usize>, linear: usize) {
    if let Err(place) = sorted.binary_search(&linear) {
        sorted.insert(place, linear);
    }
}

/// Linears that share their input with siblings, whose names the compiler then mixes with theirs.
const LEADERS: [&str; 3] = ["in_proj_qkv", "q_proj", "gate_proj"];

/// The layer and the part that an exporter's name tells: `.../DecoderLayer_3/.../Linear_k_proj;;.../Linear_q_proj;1` is
/// `k_proj` of layer 3. `None` for a name that tells nothing, or several things.
fn spoken(name: &str) -> Option<(Option<usize>, &str)> {
    let word = |text: &str, of: fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for scope in name.split(";;") {
        for (at, marker) in scope.match_indices("Linear_") {
            let rest = &scope[at + marker.len()..];
            let part = &rest[..word(rest, |c| c.is_ascii_alphanumeric() || c == '_')];
            if !parts.iter().any(|(known, _)| *known == part) {
                parts.push((part, scope));
            }
        }
    }
    if parts.len() > 1 {
        parts.retain(|(part, _)| !LEADERS.contains(part));
    }
    let [(part, scope)] = parts[..] else { return None };
    let layer = scope.split("DecoderLayer_").nth(1).map(|rest| &rest[..word(rest, |c| c.is_ascii_digit())]);
    Some((layer.and_then(|digits| digits.parse().ok()), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_part_that_is_not_the_leader() {
        let cases = [
            ("m.Layer_2/m.DecoderLayer_2/nn.Linear_down_proj;1", Some((Some(2), "down_proj"))),
            ("x/DecoderLayer_0/Linear_in_proj_b;;x/DecoderLayer_0/Linear_in_proj_qkv;1", Some((Some(0), "in_proj_b"))),
            ("x/DecoderLayer_11/Linear_q_proj;;y/DecoderLayer_11/Linear_v_proj", Some((Some(11), "v_proj"))),
            ("x/DecoderLayer_3/Linear_q_proj;1", Some((Some(3), "q_proj"))),
            ("a/Linear_k_proj;;a/Linear_v_proj", None),
            ("Linear_lm_head", Some((None, "lm_head"))),
            ("arith.constant12", None),
            ("w17", None),
        ];
        for (name, expected) in cases {
            assert_eq!(spoken(name), expected, "{name}");
        }
    }
}
