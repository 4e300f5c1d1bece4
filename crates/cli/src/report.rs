//! What is told of a reply: a turn and the facts of its model go in; lines for people or JSON for programs come out.

use kinglet_engine::Sampling;
use serde_json::{Value, json};

use crate::load::Loaded;
use crate::machine::Resident;
use crate::turn::Turn;
use crate::units;

/// What `--stats` prints.
pub(crate) fn stats(loaded: &Loaded, turn: &Turn) -> String {
    let facts = &loaded.facts;
    let resident = Resident::read();
    let told = |what: &str, bytes: Option<u64>| bytes.map(|bytes| format!(", {} {what}", units::bytes(bytes)));
    let own = told("held", resident.own_bytes).unwrap_or_default();
    let peak = told("at most with pages of files", resident.peak_with_files_bytes).unwrap_or_default();
    format!(
        "model     {}, {} parameters, weights {}, context {}\n\
         engine    {} on {}\n\
         sampling  {}\n\
         load      {}\n\
         prompt    {}, {} cached, in {}{}\n\
         first     {} to the first text\n\
         reply     {} in {}{}\n\
         memory    {} computed{own}{peak}\n",
        facts.name,
        units::count(facts.parameters),
        facts.weights,
        facts.context,
        facts.tier,
        threads(facts.threads),
        sampling(&turn.request.sampling),
        units::time(loaded.time),
        tokens(turn.reply.prompt_tokens),
        turn.reply.cached_tokens,
        units::time(turn.times.prompt),
        per_second(turn.prompt_rate()),
        turn.times.first.map_or_else(|| "never came".to_owned(), units::time),
        tokens(turn.reply.reply_tokens),
        units::time(turn.times.end.saturating_sub(turn.times.prompt)),
        per_second(turn.reply_rate()),
        units::bytes(loaded.needs.total_bytes),
    )
}

fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

fn tokens(count: usize) -> String {
    if count == 1 { "1 token".to_owned() } else { format!("{count} tokens") }
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or(String::new(), |rate| format!(", {rate:.1} tokens/s"))
}

/// `greedy`, or the values that differ from it.
fn sampling(s: &Sampling) -> String {
    let greedy = Sampling::default();
    let mut parts = Vec::new();
    if s.temperature == 0.0 {
        parts.push("greedy".to_owned());
    } else {
        let cuts = [
            ("top-k", s.top_k as f32, s.top_k != greedy.top_k),
            ("top-p", s.top_p, s.top_p != greedy.top_p),
            ("min-p", s.min_p, s.min_p != greedy.min_p),
        ];
        parts.push(format!("temperature {}", s.temperature));
        parts.extend(cuts.iter().filter(|(.., set)| *set).map(|(name, value, _)| format!("{name} {value}")));
        parts.push(format!("seed {}", s.seed));
    }
    let penalties = [
        ("repeat", s.repetition_penalty, greedy.repetition_penalty),
        ("frequency", s.frequency_penalty, greedy.frequency_penalty),
        ("presence", s.presence_penalty, greedy.presence_penalty),
    ];
    let set = penalties.iter().filter(|(_, value, none)| value != none);
    parts.extend(set.map(|(name, value, _)| format!("{name} penalty {value}")));
    parts.join(", ")
}

/// What `run --json` prints.
pub(crate) fn json(loaded: &Loaded, turn: &Turn) -> Value {
    let (reply, times) = (&turn.reply, &turn.times);
    let s = &turn.request.sampling;
    json!({
        "content": reply.content,
        "reasoning": reply.thought,
        "finish_reason": reply.finish.name(),
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "cached_tokens": reply.cached_tokens,
            "completion_tokens": reply.reply_tokens,
        },
        "timings": {
            "load_ms": units::milliseconds(loaded.time),
            "prompt_ms": units::milliseconds(times.prompt),
            "first_text_ms": times.first.map(units::milliseconds),
            "total_ms": units::milliseconds(times.end),
            "prompt_tokens_per_second": turn.prompt_rate().map(tenths),
            "completion_tokens_per_second": turn.reply_rate().map(tenths),
        },
        "sampling": {
            "temperature": decimal(s.temperature),
            "top_k": s.top_k,
            "top_p": decimal(s.top_p),
            "min_p": decimal(s.min_p),
            "repeat_penalty": decimal(s.repetition_penalty),
            "frequency_penalty": decimal(s.frequency_penalty),
            "presence_penalty": decimal(s.presence_penalty),
            // A greedy choice has no seed.
            "seed": (s.temperature > 0.0).then_some(s.seed),
        },
        "model": loaded.facts,
        "memory": {
            "computed": loaded.needs,
            "resident": Resident::read(),
        },
    })
}

fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// The number as it was typed: 0.7, not the double nearest to the single nearest to it.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_json_are_those_that_were_typed() {
        for text in ["0.7", "1.5", "0.0", "-2.0"] {
            assert_eq!(decimal(text.parse().expect("a number")).to_string(), text);
        }
    }

    #[test]
    fn sampling_is_told_by_what_differs_from_greedy() {
        let greedy = Sampling::default();
        let cases = [
            (greedy.clone(), "greedy"),
            (Sampling { presence_penalty: 1.5, ..greedy.clone() }, "greedy, presence penalty 1.5"),
            (
                Sampling { temperature: 0.5, top_k: 20, top_p: 0.75, seed: 3, ..greedy },
                "temperature 0.5, top-k 20, top-p 0.75, seed 3",
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(sampling(&given), expected);
        }
    }
}
