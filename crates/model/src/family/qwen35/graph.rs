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
use crate::weights::{AttentionWeights, DeltaWeights, Layer, Matrix, Mlp, MixerWeights, Weights};
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
        let (hidden, vocab) = (embedding.columns(), embedding.rows());
        let (k, d) = (&states.attention, &states.delta);
        let mut heads = 0;
        for layer in &roles.layers {
            if let MixerRoles::Attention(mixer) = &layer.mixer {
                heads = rows(mixer.query) / (2 * k.head_dim);
            }
        }
        let (inverse_frequencies, taps) = (self.inverse_frequencies()?, self.taps(roles)?);
        let queries_and_keys = d.channels.checked_sub(d.value_heads * d.value_dim);
        let key_heads = queries_and_keys.filter(|n| n.is_multiple_of(2 * d.key_dim)).map(|n| n / (2 * d.key_dim));
        let Some(key_heads) = key_heads else {
            let expected = format!("two times a multiple of {} beside {} values", d.key_dim, d.value_heads * d.value_dim);
            return Err(Error::plan("channels of the convolution", expected, d.channels));
        };
        if !(taps == d.columns || taps == d.columns + 1) {
            let expected = format!("{} or {} columns for a kernel of {taps}", taps - 1, taps);
            return Err(Error::plan("convolution state", expected, d.columns));
        }
        let mixers = roles.layers.iter().map(|layer| match layer.mixer {
            MixerRoles::Attention(_) => Mixer::GatedAttention,
            MixerRoles::Delta(_) => Mixer::GatedDeltaNet,
        });
        let plan = Plan {
            vocab,
            hidden,
            ffn: roles.layers.first().map_or(0, |layer| rows(layer.gate)),
            layers: mixers.collect(),
            attention: Attention { heads, kv_heads: k.kv_heads, head_dim: k.head_dim, inverse_frequencies },
            delta: DeltaNet {
                key_heads,
                value_heads: d.value_heads,
                key_dim: d.key_dim,
                value_dim: d.value_dim,
                taps,
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
                let constant = node.inputs[0].and_then(|angles| self.network.angle_factor(angles));
                match (constant, found) {
                    (Some(constant), None) => found = Some(constant),
                    (Some(constant), Some(first)) if self.network.same_constant(constant, first) => {}
                    _ => return Err(Error::plan("rotary angles", "one constant times the position".into(), "another graph")),
                }
            }
        }
        let Some(constant) = found else {
            return Err(Error::plan("rotary angles", "a cosine in the graph".into(), "none"));
        };
        self.constants.vector(constant, "inverse frequencies", None)
    }

    /// Taps of the convolution: the dimension of its weights that is neither 1 nor the channels.
    fn taps(&self, roles: &Roles) -> Result<usize> {
        let convolutions = roles.layers.iter().filter_map(|layer| match &layer.mixer {
            MixerRoles::Delta(mixer) => Some(mixer.convolution),
            MixerRoles::Attention(_) => None,
        });
        let mut found = None;
        for node in convolutions {
            let taps = self.network.convolution_taps(node)?;
            if found.is_some_and(|first| first != taps) {
                return Err(Error::plan("convolution taps", format!("{found:?} in every layer"), taps));
            }
            found = Some(taps);
        }
        found.ok_or_else(|| Error::plan("convolution taps", "a convolution".into(), "none"))
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
        let weight = node.inputs[1].expect("roles saw the weight");
        if let Some(bias) = node.inputs.get(2).copied().flatten() {
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
        let matrix = if tied { self.constants.shared_matrix(weight, name) } else { self.constants.matrix(weight, name) }?;
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
