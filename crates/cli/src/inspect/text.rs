//! Findings as lines for people; every name of a file is made harmless first.

use std::io::{self, Write};

use super::findings::{BundleFacts, CheckpointFacts, Findings, PlanFacts, Runs, TensorFacts};
use crate::load::Needs;
use crate::{terminal, units};

/// Operators that are listed for each signature.
const OPERATORS: usize = 8;

pub(super) fn write(out: &mut dyn Write, found: &Findings) -> io::Result<()> {
    writeln!(out, "model      {}, a {}", found.name, found.kind)?;
    if let Some(bundle) = &found.bundle {
        container(out, bundle)?;
    }
    if let Some(checkpoint) = &found.checkpoint {
        directory(out, checkpoint)?;
    }
    match &found.runs {
        Runs::Yes => writeln!(out, "runs       yes")?,
        Runs::No { reason } => writeln!(out, "runs       no: {}", terminal::name(reason))?,
    }
    if let Some(plan) = &found.plan {
        network(out, plan)?;
    }
    if let Some(weights) = &found.weights {
        let matrices: Vec<_> = weights.matrices.iter().map(|(format, count)| format!("{count} {format}")).collect();
        let (mapped, owned) = (units::bytes(weights.mapped_bytes), units::bytes(weights.owned_bytes));
        let head = if weights.tied { "the embedding is the head" } else { "a head of its own" };
        writeln!(
            out,
            "weights    {} matrices, {head}; {mapped} in the file, {owned} beside it",
            matrices.join(" and ")
        )?;
    }
    memory(out, found)?;
    for notice in &found.notices {
        writeln!(out, "notice     {}", terminal::name(notice))?;
    }
    for tensor in found.tensors.iter().flatten() {
        matrix(out, tensor)?;
    }
    if let Some(metadata) = &found.metadata {
        let json = serde_json::to_string_pretty(metadata)?;
        writeln!(out, "metadata   {}", terminal::prose(&json))?;
    }
    Ok(())
}

fn container(out: &mut dyn Write, bundle: &BundleFacts) -> io::Result<()> {
    let sections = bundle.sections.len();
    writeln!(out, "container  version {}, {}, {sections} sections", bundle.version, units::bytes(bundle.size_bytes))?;
    for s in &bundle.sections {
        let model_type = s.model_type.as_deref().unwrap_or("-");
        let size = units::bytes(s.end - s.begin);
        writeln!(
            out,
            "  {:>2} {:<24} {:<16} {:>10} at {}",
            s.index,
            s.kind,
            terminal::name(model_type),
            size,
            s.begin
        )?;
    }
    for s in &bundle.signatures {
        let count: u64 = s.operators.values().filter_map(serde_json::Value::as_u64).sum();
        let most: Vec<_> =
            s.operators.iter().take(OPERATORS).map(|(k, n)| format!("{n} {}", terminal::name(k))).collect();
        let more = if s.operators.len() > OPERATORS { ", ..." } else { "" };
        writeln!(out, "signature  {}: {count} operators: {}{more}", terminal::name(&s.key), most.join(", "))?;
    }
    Ok(())
}

fn directory(out: &mut dyn Write, checkpoint: &CheckpointFacts) -> io::Result<()> {
    for shard in &checkpoint.shards {
        writeln!(out, "shard      {}, {}", terminal::name(&shard.name), units::bytes(shard.size_bytes))?;
    }
    writeln!(
        out,
        "tensors    {}, those of the text model named `{}*`, stored as {} does",
        checkpoint.tensors,
        terminal::name(&checkpoint.prefix),
        checkpoint.convention
    )
}

fn network(out: &mut dyn Write, plan: &PlanFacts) -> io::Result<()> {
    let (a, d) = (&plan.attention, &plan.delta_rule);
    writeln!(
        out,
        "network    {} parameters, vocabulary {}, width {}, MLP {}, {} positions",
        units::count(plan.parameters),
        plan.vocabulary,
        plan.hidden,
        plan.ffn,
        plan.positions
    )?;
    writeln!(out, "layers     {} {}", plan.layers.len(), plan.layers)?;
    writeln!(
        out,
        "attention  {} heads, {} key/value heads, of {}; {} dimensions rotated",
        a.heads, a.key_value_heads, a.head_width, a.rotated
    )?;
    writeln!(
        out,
        "delta rule {} key heads of {}, {} value heads of {}, {} taps",
        d.key_heads, d.key_width, d.value_heads, d.value_width, d.taps
    )
}

fn memory(out: &mut dyn Write, found: &Findings) -> io::Result<()> {
    let Some(context) = found.context else { return Ok(()) };
    let mut line = |label: &str, needs: &Option<Needs>| match needs {
        Some(needs) => writeln!(out, "memory     {label} at context {context}: {}", needs.statement()),
        None => Ok(()),
    };
    line("int8", &found.memory_int8)?;
    line("as stored", &found.memory)
}

fn matrix(out: &mut dyn Write, tensor: &TensorFacts) -> io::Result<()> {
    writeln!(out, "  {:<32} {:<5} [{}, {}]", terminal::name(&tensor.name), tensor.format, tensor.rows, tensor.columns)
}
