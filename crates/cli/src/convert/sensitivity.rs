//! `--sensitivity`: a checkpoint and a text go in; for each kind of weights, how far the model's answers move when only
//! that kind is int8 comes out.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use kinglet_convert::recipe::Kind;
use kinglet_convert::{Conversion, quantized};
use kinglet_engine::{Activation, Activations, Engine, Options, Want};
use kinglet_model::{Plan, Weights};
use kinglet_text::{Specials, Tokenizer};
use serde_json::json;

use super::ConvertOptions;
use crate::failure::{Class, Failure};
use crate::terminal::{self, Terminal};

/// Tokens of the text that are read at most: each takes as many logits as the vocabulary has ids.
const TOKENS: usize = 256;

/// One line of the table.
struct Row {
    kind: &'static str,
    mean: f64,
    max: f64,
    same_top: usize,
}

pub(super) fn run(
    conversion: &Conversion,
    path: &Path,
    options: &ConvertOptions,
    _terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let shown = terminal::name(&path.display().to_string()).into_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Class::NotFound, format!("--sensitivity {shown}: {error}")))?;
    let mut ids = Tokenizer::from_json(&conversion.assets().tokenizer)?.encode(&text, Specials::AsText)?;
    if ids.is_empty() {
        return Err(Failure::new(Class::Damaged, format!("--sensitivity {shown}: the file is empty")).into());
    }
    ids.truncate(TOKENS);
    let threads = super::threads(options);
    let float = distributions(conversion.plan(), conversion.weights(), &ids, threads)?;
    let mut rows = Vec::new();
    for kind in Kind::MATRICES.into_iter().filter(|kind| conversion.parts().iter().any(|part| part.kind == *kind)) {
        rows.push(row(conversion, kind.name(), &[kind], &ids, &float, threads)?);
    }
    rows.push(row(conversion, "all", &Kind::MATRICES, &ids, &float, threads)?);
    print(&rows, ids.len(), options.json)?;
    Ok(ExitCode::SUCCESS)
}

fn row(
    conversion: &Conversion,
    name: &'static str,
    kinds: &[Kind],
    ids: &[u32],
    float: &[f32],
    threads: usize,
) -> anyhow::Result<Row> {
    let weights = Arc::new(quantized(conversion.weights(), kinds, threads)?);
    let other = distributions(conversion.plan(), &weights, ids, threads)?;
    let vocab = conversion.plan().vocab;
    let mut row = Row { kind: name, mean: 0.0, max: 0.0, same_top: 0 };
    for (p, q) in float.chunks_exact(vocab).zip(other.chunks_exact(vocab)) {
        // KL(p || q) in nats; both are log-probabilities.
        let divergence: f64 = p.iter().zip(q).map(|(p, q)| f64::from(*p).exp() * f64::from(p - q)).sum();
        row.mean += divergence / ids.len() as f64;
        row.max = row.max.max(divergence);
        row.same_top += usize::from(top(p) == top(q));
    }
    Ok(row)
}

/// Log-probabilities of the next id behind each id, with activations as they are.
fn distributions(plan: &Arc<Plan>, weights: &Arc<Weights>, ids: &[u32], threads: usize) -> anyhow::Result<Vec<f32>> {
    let options = Options { activations: Activations::all(Activation::Float), ..Options::new(threads) };
    let mut engine = Engine::new(Arc::clone(plan), Arc::clone(weights), &options);
    let mut logits = vec![0.0; ids.len() * plan.vocab];
    let mut session = engine.session(ids.len());
    engine.advance(&mut session, ids, Want::Every(&mut logits))?;
    for row in logits.chunks_exact_mut(plan.vocab) {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|x| f64::from(x - most).exp()).sum();
        let shift = f64::from(most) + sum.ln();
        row.iter_mut().for_each(|x| *x = (f64::from(*x) - shift) as f32);
    }
    Ok(logits)
}

fn top(row: &[f32]) -> usize {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]).then(b.cmp(a))).unwrap_or(0)
}

fn print(rows: &[Row], tokens: usize, as_json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let row =
            |row: &Row| json!({ "kind": row.kind, "mean_kl": row.mean, "max_kl": row.max, "same_top": row.same_top });
        let object = json!({ "tokens": tokens, "kinds": rows.iter().map(row).collect::<Vec<_>>() });
        serde_json::to_writer_pretty(&mut out, &object).map_err(io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "int8         mean KL    largest KL   same top id, of {tokens}")?;
    for row in rows {
        writeln!(out, "{:<10} {:>9.2e}     {:>9.2e}   {}", row.kind, row.mean, row.max, row.same_top)?;
    }
    Ok(())
}
