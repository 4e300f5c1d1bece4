//! Qwen3.5 from a bundle: its `decode` graph goes in, the plan and the weights that it computes with come out; the
//! graph itself is never run.
//!
//! Weights are recognised by what the graph does with them, not by their names, so that every exporter's dialect and
//! naming is read alike: the recurrent state of layer 3 depends on exactly three linears, and so on. Names, where they
//! speak, must agree. A constant that plays no known part is refused: the graph would compute something else.

mod constants;
mod network;
mod norms;
mod roles;
mod states;

use kinglet_bundle::{Bundle, SectionKind};
use kinglet_tflite::{ElementType, Kind, Model};

use crate::error::{Error, Result};
use crate::plan::{Attention, DeltaNet, Mixer, Plan};
use crate::weights::{AttentionWeights, DeltaWeights, Layer, Matrix, MixerWeights, Mlp, Weights};
use constants::Constants;
use network::{Network, op};
use norms::{Norm, Norms};
use roles::{LayerRoles, MixerRoles, Roles};
use states::States;

/// A bundle's plan and weights. Weights are ranges of the bundle's file.
#[derive(Clone, Debug)]
pub struct Bound {
    /// What the bundle computes.
    pub plan: Plan,
    /// With which numbers.
    pub weights: Weights,
    /// What a user should know: parts of the bundle that are not used, or are computed better than its graph does.
    pub notices: Vec<String>,
}

/// Adds to the sums of squares that make queries and keys unit vectors: fixed in the family.
const UNIT_EPSILON: f32 = 1e-6;

/// Recognises the bundle's graph and ties its constants to their parts in the model.
///
/// # Errors
/// A bundle without a language model, one of another family, or one whose graph holds constants that cannot all be
/// accounted for. The message names what was found.
pub fn bind(bundle: &Bundle) -> Result<Bound> {
    let model = bundle.model().map_err(Error::bundle)?;
    let network = Network::of_decode(&model)?;
    let states = States::find(&network, &stated_family(bundle))?;
    network.refuse_foreign_operators()?;
    let norms = Norms::find(&network)?;
    let roles = Roles::assign(&network, &states, &norms)?;
    let mut binder = Binder { constants: Constants::new(&network), network: &network, norms: &norms };
    let embedder = bundle.embedder().map_err(Error::bundle)?;
    let (embedding, tied) = binder.embedding(&roles, embedder.as_ref())?;
    let plan = binder.plan(&states, &roles, &embedding)?;
    let weights = binder.weights(&plan, &roles, embedding, tied)?;
    binder.constants.refuse_unbound(&plan)?;
    Ok(Bound { notices: notices(bundle, &model), plan, weights })
}

/// What the bundle says of its family, for messages.
fn stated_family(bundle: &Bundle) -> String {
    let metadata = bundle.llm_metadata().ok();
    let family = metadata.and_then(|m| m.model_type).and_then(|family| family.name());
    family.map(|family| format!(" (the bundle calls itself `{family}`)")).unwrap_or_default()
}

struct Binder<'n, 'm> {
    network: &'n Network<'m>,
    norms: &'n Norms,
    constants: Constants<'n, 'm>,
}

impl Binder<'_, '_> {
    /// The embedding, and whether the head is the same matrix.
    fn embedding(&mut self, roles: &Roles, embedder: Option<&Model>) -> Result<(Matrix, bool)> {
        let head = self.network.linear(roles.head).weight;
        if let Some(table) = self.network.embedding_table()? {
            let matrix = self.constants.matrix(table, "embed_tokens")?;
            return Ok((matrix, self.network.tensor(table).buffer == self.network.tensor(head).buffer));
        }
        let Some(embedder) = embedder else {
            let what = "the graph takes embeddings in place of tokens, and the bundle has no embedder".to_owned();
            return Err(Error::unsupported(what, None));
        };
        Ok((embedder_table(embedder)?, false))
    }

    fn plan(&mut self, states: &States, roles: &Roles, embedding: &Matrix) -> Result<Plan> {
        let rows = |linear: usize| self.network.tensor(self.network.linear(linear).weight).shape[0] as usize;
        let (k, d) = (&states.attention, &states.delta);
        let query = roles.layers.iter().find_map(|layer| match &layer.mixer {
            MixerRoles::Attention(mixer) => Some(mixer.query),
            MixerRoles::Delta(_) => None,
        });
        let heads = query.map_or(0, |query| rows(query) / (2 * k.head_dim).max(1));
        let ffn = roles.layers.first().map_or(0, |layer| rows(layer.gate));
        let mixers = roles.layers.iter().map(|layer| match layer.mixer {
            MixerRoles::Attention(_) => Mixer::GatedAttention,
            MixerRoles::Delta(_) => Mixer::GatedDeltaNet,
        });
        let inverse_frequencies = self.inverse_frequencies()?;
        let plan = Plan {
            vocab: embedding.rows(),
            hidden: embedding.columns(),
            ffn,
            layers: mixers.collect(),
            attention: Attention { heads, kv_heads: k.kv_heads, head_dim: k.head_dim, inverse_frequencies },
            delta: DeltaNet {
                key_heads: d.key_heads()?,
                value_heads: d.value_heads,
                key_dim: d.key_dim,
                value_dim: d.value_dim,
                taps: self.taps(roles, d.columns)?,
            },
            eps: self.norms.eps,
            max_positions: k.positions,
        };
        plan.validate()?;
        Ok(plan)
    }

    /// The constant that positions are multiplied with before their cosine and sine are taken.
    fn inverse_frequencies(&mut self) -> Result<Vec<f32>> {
        let mut found = None;
        for node in self.network.nodes() {
            if node.is(op::COS) || node.is(op::SIN) {
                let constant = node.input(0).and_then(|angles| self.network.angle_factor(angles));
                match (constant, found) {
                    (Some(constant), None) => found = Some(constant),
                    (Some(constant), Some(first)) if self.network.same_constant(constant, first) => {}
                    _ => {
                        return Err(Error::plan(
                            "rotary angles",
                            "one constant times the position".into(),
                            "another graph",
                        ));
                    }
                }
            }
        }
        let Some(constant) = found else {
            return Err(Error::plan("rotary angles", "a cosine in the graph".into(), "none"));
        };
        self.constants.vector(constant, "inverse frequencies", None)
    }

    /// Taps of the convolution, whose state has as many columns or one less.
    fn taps(&self, roles: &Roles, columns: usize) -> Result<usize> {
        let mut found = None;
        for layer in &roles.layers {
            let MixerRoles::Delta(mixer) = &layer.mixer else { continue };
            let taps = self.network.convolution_taps(mixer.convolution)?;
            if taps != *found.get_or_insert(taps) || !(taps == columns || taps == columns + 1) {
                return Err(Error::plan(
                    "convolution",
                    format!("{columns} or {} taps in every layer", columns + 1),
                    taps,
                ));
            }
        }
        found.ok_or_else(|| Error::plan("convolution", "one in the graph".into(), "none"))
    }

    fn weights(&mut self, plan: &Plan, roles: &Roles, embedding: Matrix, tied: bool) -> Result<Weights> {
        let mut layers = Vec::with_capacity(roles.layers.len());
        for (i, layer) in roles.layers.iter().enumerate() {
            layers.push(self.layer(plan, i, layer)?);
        }
        let final_norm = self.norm(roles.final_norm, "final norm", plan.hidden)?;
        let head = self.linear(roles.head, "lm_head", plan.vocab, plan.hidden, tied)?;
        Ok(Weights { embedding, layers, final_norm, head: (!tied).then_some(head) })
    }

    fn layer(&mut self, plan: &Plan, i: usize, layer: &LayerRoles) -> Result<Layer> {
        let (hidden, ffn) = (plan.hidden, plan.ffn);
        let name = |part: &str| format!("layers.{i}.{part}");
        Ok(Layer {
            input_norm: self.norm(layer.input_norm, &name("input_layernorm"), hidden)?,
            mixer: match &layer.mixer {
                MixerRoles::Attention(mixer) => MixerWeights::Attention(self.attention(plan, i, mixer)?),
                MixerRoles::Delta(mixer) => MixerWeights::Delta(self.delta(plan, i, mixer)?),
            },
            mlp_norm: self.norm(layer.mlp_norm, &name("post_attention_layernorm"), hidden)?,
            mlp: Mlp {
                gate: self.linear(layer.gate, &name("gate_proj"), ffn, hidden, false)?,
                up: self.linear(layer.up, &name("up_proj"), ffn, hidden, false)?,
                down: self.linear(layer.down, &name("down_proj"), hidden, ffn, false)?,
            },
        })
    }

    fn attention(&mut self, plan: &Plan, i: usize, mixer: &roles::AttentionRoles) -> Result<AttentionWeights> {
        let (a, hidden) = (&plan.attention, plan.hidden);
        let (wide, narrow) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
        let name = |part: &str| format!("layers.{i}.{part}");
        Ok(AttentionWeights {
            query: self.linear(mixer.query, &name("q_proj"), 2 * wide, hidden, false)?,
            key: self.linear(mixer.key, &name("k_proj"), narrow, hidden, false)?,
            value: self.linear(mixer.value, &name("v_proj"), narrow, hidden, false)?,
            output: self.linear(mixer.output, &name("o_proj"), hidden, wide, false)?,
            query_norm: self.norm(mixer.query_norm, &name("q_norm"), a.head_dim)?,
            key_norm: self.norm(mixer.key_norm, &name("k_norm"), a.head_dim)?,
        })
    }

    fn delta(&mut self, plan: &Plan, i: usize, mixer: &roles::DeltaRoles) -> Result<DeltaWeights> {
        let (d, hidden) = (&plan.delta, plan.hidden);
        let (heads, values) = (d.value_heads, d.values());
        let name = |part: &str| format!("layers.{i}.{part}");
        let decay_rate = self.constants.vector(mixer.decay_rate, &name("A_log"), Some(heads))?;
        if let Some(bad) = decay_rate.iter().find(|rate| !(rate.is_finite() && **rate <= 0.0)) {
            return Err(Error::tensor(&name("A_log"), "-exp(A_log), which is never positive", bad.to_string()));
        }
        let bias = self.network.linear(mixer.a).bias.expect("roles choose the linear that has a bias");
        Ok(DeltaWeights {
            qkv: self.linear(mixer.qkv, &name("in_proj_qkv"), d.channels(), hidden, false)?,
            z: self.linear(mixer.z, &name("in_proj_z"), values, hidden, false)?,
            a: self.linear(mixer.a, &name("in_proj_a"), heads, hidden, false)?,
            b: self.linear(mixer.b, &name("in_proj_b"), heads, hidden, false)?,
            output: self.linear(mixer.output, &name("out_proj"), hidden, values, false)?,
            conv: self.convolution(mixer.convolution, &name("conv1d"), d)?,
            decay_rate,
            dt_bias: self.constants.vector(bias, &name("dt_bias"), Some(heads))?,
            norm: self.norm(mixer.norm, &name("norm"), d.value_dim)?,
        })
    }

    /// `[taps, channels]`; the bias beside it must be nothing but zeros, as the family has none.
    fn convolution(&mut self, node: usize, name: &str, d: &DeltaNet) -> Result<Vec<f32>> {
        let node = &self.network.nodes()[node];
        let weight = node.input(1).expect("roles saw the weight");
        if let Some(bias) = node.input(2) {
            let bias = self.constants.vector(bias, &format!("{name}.bias"), Some(d.channels()))?;
            if bias.iter().any(|b| *b != 0.0) {
                return Err(Error::tensor(&format!("{name}.bias"), "zeros", "other values"));
            }
        }
        self.constants.vector(weight, name, Some(d.taps * d.channels()))
    }

    fn norm(&mut self, norm: usize, name: &str, len: usize) -> Result<Vec<f32>> {
        let Norm { weight, .. } = self.norms.get(norm);
        self.constants.vector(*weight, name, Some(len))
    }

    fn linear(&mut self, linear: usize, name: &str, rows: usize, columns: usize, tied: bool) -> Result<Matrix> {
        let weight = self.network.linear(linear).weight;
        let matrix =
            if tied { self.constants.shared_matrix(weight, name) } else { self.constants.matrix(weight, name) }?;
        if (matrix.rows(), matrix.columns()) != (rows, columns) {
            let found = format!("[{}, {}]", matrix.rows(), matrix.columns());
            return Err(Error::tensor(name, format!("[{rows}, {columns}]"), found));
        }
        Ok(matrix)
    }
}

/// The table of an embedder: a model whose signatures do nothing but look rows up.
fn embedder_table(model: &Model) -> Result<Matrix> {
    let mut table: Option<Matrix> = None;
    for signature in model.signatures() {
        let network = Network::of_signature(model, signature)?;
        if let Some(foreign) = network.nodes().iter().find(|node| !node.is_view() && !node.is(op::EMBEDDING_LOOKUP)) {
            let what = format!("the embedder computes {}, expected only a look-up of rows", foreign.kind);
            return Err(Error::unsupported(what, None));
        }
        let Some(found) = network.embedding_table()? else { continue };
        let found = Constants::new(&network).matrix(found, "embed_tokens")?;
        if table.as_ref().is_some_and(|first| (first.rows(), first.columns()) != (found.rows(), found.columns())) {
            return Err(Error::unsupported("the embedder looks rows up in tables of several shapes", None));
        }
        table.get_or_insert(found);
    }
    table.ok_or_else(|| Error::unsupported("the embedder looks nothing up", None))
}

fn notices(bundle: &Bundle, model: &Model) -> Vec<String> {
    let mut notices = Vec::new();
    for section in bundle.sections().iter().filter(|s| s.kind == SectionKind::TfLiteModel) {
        let used = matches!(section.model_type(), Some("prefill_decode" | "embedder"));
        if !used {
            let kind = section.model_type().unwrap_or("without a model_type");
            notices.push(format!("{} ({kind}) is not used", section.label()));
        }
    }
    if let Some(token) = guard_token(model) {
        notices.push(format!(
            "the bundle's own graph takes token {token} for padding and keeps it from its delta-rule layers; here it \
             counts like any other"
        ));
    }
    notices
}

/// The token that the graph compares its input with to tell padding.
fn guard_token(model: &Model) -> Option<i32> {
    model.signatures().iter().find_map(|signature| {
        let (tensors, tokens) = (model.subgraph_of(signature).tensors(), signature.input("tokens")?);
        let mut guards = model.operators(model.subgraph_of(signature));
        let guard = guards.find(|o| *o.kind() == Kind::Builtin(op::NOT_EQUAL) && o.input(0) == Some(tokens))?;
        let constant = &tensors[guard.input(1)?];
        let bytes = model.data(constant).filter(|_| constant.element == ElementType::I32)?;
        Some(i32::from_le_bytes(*bytes.first_chunk::<4>()?))
    })
}

#[cfg(test)]
#[path = "../../../../flat/tests/builder/mod.rs"]
mod builder;

#[cfg(test)]
mod tests {
    use kinglet_blob::Blob;

    use super::builder::{Node, build, table, text};
    use super::*;

    /// A model with one signature that runs one operator on a table of three rows.
    fn embedder(operator: i32) -> Model {
        let rows: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let tensor = |shape: Vec<i32>, element: i8, buffer: u32| {
            table([(0, Node::I32s(shape)), (1, Node::I8(element)), (2, Node::U32(buffer))])
        };
        let tensors = vec![tensor(vec![1], 2, 0), tensor(vec![3, 2], 0, 1), tensor(vec![1, 2], 0, 0)];
        let look_up = table([(0, Node::U32(0)), (1, Node::I32s(vec![0, 1])), (2, Node::I32s(vec![2]))]);
        let subgraph = table([
            (0, Node::Tables(tensors)),
            (1, Node::I32s(vec![0])),
            (2, Node::I32s(vec![2])),
            (3, Node::Tables(vec![look_up])),
        ]);
        let named = |name: &str, tensor: u32| Node::Tables(vec![table([(0, text(name)), (1, Node::U32(tensor))])]);
        let signature = table([(0, named("token_ids", 0)), (1, named("embeddings", 2)), (2, text("decode_embedder"))]);
        let root = table([
            (0, Node::U32(3)),
            (1, Node::Tables(vec![table([(0, Node::I8(operator as i8)), (3, Node::I32(operator))])])),
            (2, Node::Tables(vec![subgraph])),
            (4, Node::Tables(vec![table([]), table([(0, Node::Bytes(rows))])])),
            (7, Node::Tables(vec![signature])),
        ]);
        Model::parse(Blob::from_vec(build(&root, Some(b"TFL3"))), None).expect("sound")
    }

    #[test]
    fn an_embedder_that_looks_rows_up_gives_its_table() {
        let found = embedder_table(&embedder(7)).expect("a look-up");
        assert_eq!((found.rows(), found.columns()), (3, 2));
        let mut row = [0.0; 2];
        found.read_row(2, &mut row);
        assert_eq!(row, [4.0, 5.0]);
    }

    #[test]
    fn an_embedder_that_computes_is_refused() {
        let error = embedder_table(&embedder(18)).expect_err("a product");
        assert!(error.to_string().contains("the embedder computes MUL"), "{error}");
    }
}
