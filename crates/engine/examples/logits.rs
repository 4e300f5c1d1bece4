//! Logits for other programs to compare with: lists of ids go in on standard input, as JSON; the logits of every
//! position come out as little-endian `f32`.
//!
//! `cargo run -p kinglet-engine --example logits -- MODEL stored|int8 exact|rounded`
//!
//! `stored` keeps a checkpoint's weights as they are, `int8` rounds them as the recipe does (a bundle's are what they
//! are); `exact` rounds no activations, `rounded` does what `kinglet run` does.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use kinglet_engine::{Activation, Activations, Engine, Options, Want};
use kinglet_model::Source;
use kinglet_model::source::{LoadOptions, Precision};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [path, weights @ ("stored" | "int8"), activations @ ("exact" | "rounded")] = words[..] else {
        return Err("usage: logits MODEL stored|int8 exact|rounded < LISTS.json".into());
    };
    let precision = if weights == "stored" { Precision::Stored } else { Precision::Int8 };
    let load = LoadOptions { precision, threads: 2, progress: &mut |_, _| () };
    let model = Source::open(Path::new(path))?.load(load)?;
    let mut options = Options::new(2);
    if activations == "exact" {
        options.activations = Activations::all(Activation::Float);
    }
    let mut engine = Engine::new(Arc::clone(&model.plan), Arc::clone(&model.weights), &options);
    let mut out = BufWriter::new(io::stdout().lock());
    for ids in read_lists()? {
        let mut logits = vec![0.0; ids.len() * model.plan.vocab];
        let mut session = engine.session(ids.len());
        engine.advance(&mut session, &ids, Want::Every(&mut logits))?;
        for value in logits {
            out.write_all(&value.to_le_bytes())?;
        }
    }
    Ok(out.flush()?)
}

fn read_lists() -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let lists: serde_json::Value = serde_json::from_reader(io::stdin().lock())?;
    let lists = lists.as_array().ok_or("standard input is no list of lists")?;
    lists.iter().map(read_ids).collect()
}

fn read_ids(list: &serde_json::Value) -> Result<Vec<u32>, Box<dyn Error>> {
    let ids = list.as_array().ok_or("standard input is no list of lists")?;
    ids.iter().map(|id| Ok(u32::try_from(id.as_u64().ok_or("an id is no number")?)?)).collect()
}
