//! What was typed: groups of options that several commands share, as clap reads them; nothing is decided here.

use std::path::PathBuf;

use clap::Args;

use crate::settings::{Name, parse};

/// Most positions of a session unless told otherwise.
pub(crate) const DEFAULT_CONTEXT: usize = 4096;

/// Which model, and how it is run.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelOptions {
    /// Model to use: a checkpoint directory or a .litertlm file [default: the demo model in this program]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) model: Option<PathBuf>,
    /// Positions of the conversation, prompt and replies together [default: 4096, or what the model can do if less]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = parse_context)]
    pub(crate) ctx: Option<usize>,
    /// Threads that compute [default: physical cores that this process may use]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Instruction set to use, as listed by `kinglet doctor` [default: the fastest]
    #[arg(long, value_name = "NAME", value_parser = parse_tier)]
    pub(crate) tier: Option<&'static str>,
    /// Reference mode, slow: a checkpoint's weights as stored, activations not rounded
    #[arg(long)]
    pub(crate) float: bool,
    /// Also say what was found in the model and what it takes
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// How replies are made.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Reply")]
pub(crate) struct ReplyOptions {
    /// Instructions that stand before the conversation
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system: Option<String>,
    /// Most tokens of a reply [default: until the context is full]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,
    /// Let the model think before it answers [default: as its template says]
    #[arg(long, overrides_with = "no_think")]
    pub(crate) think: bool,
    /// Do not let the model think
    #[arg(long, overrides_with = "think")]
    pub(crate) no_think: bool,
    /// Jinja template to use instead of the model's own
    #[arg(long, value_name = "FILE")]
    pub(crate) chat_template: Option<PathBuf>,
    /// Say afterwards how long it took, on how many tokens
    #[arg(long)]
    pub(crate) stats: bool,
}

/// How tokens are chosen. Defaults are what the model's makers advise, if they do, else those of greedy choice.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sampling (default: as the model's makers advise, else greedy)")]
pub(crate) struct SamplingOptions {
    /// 0 always takes the likeliest token; larger values even the odds
    #[arg(long, visible_alias = "temp", value_name = "T", allow_negative_numbers = true, value_parser = |s: &str| parse(Name::Temperature, s))]
    pub(crate) temperature: Option<f32>,
    /// Choose among the K likeliest tokens; 0 is all
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(crate) top_k: Option<usize>,
    /// Choose among the likeliest tokens that together have this share of the probability
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = |s: &str| parse(Name::TopP, s))]
    pub(crate) top_p: Option<f32>,
    /// Drop tokens with less than this share of the likeliest one's probability
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = |s: &str| parse(Name::MinP, s))]
    pub(crate) min_p: Option<f32>,
    /// Taken off the score of tokens that occur in the reply
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = |s: &str| parse(Name::PresencePenalty, s))]
    pub(crate) presence_penalty: Option<f32>,
    /// Taken off the score once for each time that a token occurs in the reply
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = |s: &str| parse(Name::FrequencyPenalty, s))]
    pub(crate) frequency_penalty: Option<f32>,
    /// Divides the scores of tokens that occur in prompt or reply
    #[arg(long, value_name = "X", value_parser = |s: &str| parse(Name::RepeatPenalty, s))]
    pub(crate) repeat_penalty: Option<f32>,
    /// Start of the random sequence: the same seed gives the same reply [default: another one for each reply]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
}

/// Reads a number of things of which there must be one.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a number of positions: more than any model has, and few enough for the arithmetic of sizes.
pub(crate) fn parse_context(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 24;
    match parse_count(text)? {
        count if count > MOST => Err(format!("must be at most {MOST}")),
        count => Ok(count),
    }
}

/// Reads a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        count if count > 1024 => Err("must be at most 1024".to_owned()),
        count => Ok(count),
    }
}

/// The name of a tier that this CPU can run.
fn parse_tier(text: &str) -> Result<&'static str, String> {
    if let Some(tier) = kinglet_kernels::by_name(text) {
        return Ok(tier.name);
    }
    let names: Vec<&str> = kinglet_kernels::available().iter().map(|tier| tier.name).collect();
    let known =
        if kinglet_kernels::compiled().contains(&text) { "this CPU cannot run it" } else { "there is no such tier" };
    Err(format!("{known}; there are: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_begin_at_one_and_tiers_are_named() {
        assert_eq!(parse_count("7"), Ok(7));
        assert!(parse_count("0").is_err() && parse_count("-1").is_err() && parse_count("x").is_err());
        assert!(parse_threads("1025").is_err());
        assert_eq!(parse_tier("portable"), Ok("portable"));
        let refused = parse_tier("abacus").expect_err("not a tier");
        assert!(refused.contains("portable"), "{refused}");
    }
}
