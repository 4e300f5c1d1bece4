//! What was decided: options, the model's advice and `/set` go in, a request for a reply comes out; the one place where
//! defaults and ranges are known.

use std::hash::{BuildHasher, RandomState};

use kinglet_chat::Request;
use kinglet_engine::Sampling;
use kinglet_model::assets::SamplingAdvice;

use crate::options::{ReplyOptions, SamplingOptions};

/// A number that can be set, with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Temperature,
    TopP,
    MinP,
    PresencePenalty,
    FrequencyPenalty,
    RepeatPenalty,
}

/// Reads a number of its range.
pub(crate) fn parse(name: Name, text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    let (good, range) = match name {
        Name::Temperature => ((0.0..=100.0).contains(&value), "0 to 100"),
        Name::TopP | Name::MinP => ((0.0..=1.0).contains(&value), "0 to 1"),
        Name::PresencePenalty | Name::FrequencyPenalty => ((-100.0..=100.0).contains(&value), "-100 to 100"),
        Name::RepeatPenalty => ((0.01..=100.0).contains(&value), "0.01 to 100"),
    };
    if good { Ok(value) } else { Err(format!("expected {range}")) }
}

/// How the next replies are to be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    sampling: Sampling,
    /// `None`: another for each reply.
    seed: Option<u64>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) think: Option<bool>,
}

impl Settings {
    pub(crate) fn new(sampling: &SamplingOptions, reply: &ReplyOptions, advice: &SamplingAdvice) -> Settings {
        let o = sampling;
        let greedy = Sampling::default();
        // Advice without a temperature is advice for the model's own odds.
        let advised = if *advice == SamplingAdvice::default() { greedy.temperature } else { 1.0 };
        Settings {
            sampling: Sampling {
                temperature: o.temperature.or(advice.temperature).unwrap_or(advised),
                top_k: o.top_k.or(advice.top_k).unwrap_or(greedy.top_k),
                top_p: o.top_p.or(advice.top_p).unwrap_or(greedy.top_p),
                min_p: o.min_p.or(advice.min_p).unwrap_or(greedy.min_p),
                repetition_penalty: o.repeat_penalty.or(advice.repetition_penalty).unwrap_or(greedy.repetition_penalty),
                frequency_penalty: o.frequency_penalty.unwrap_or(greedy.frequency_penalty),
                presence_penalty: o.presence_penalty.or(advice.presence_penalty).unwrap_or(greedy.presence_penalty),
                seed: 0,
            },
            seed: o.seed,
            max_tokens: reply.max_tokens,
            think: if reply.think { Some(true) } else { reply.no_think.then_some(false) },
        }
    }

    /// A request for one reply. Without a seed of the user's, each gets its own, which the request tells.
    pub(crate) fn request(&self) -> Request {
        let mut sampling = self.sampling.clone();
        if sampling.temperature > 0.0 {
            // 53 bits, so that JSON readers that hold numbers as doubles can give it back.
            sampling.seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 11);
        }
        Request { sampling, max_tokens: self.max_tokens, think: self.think }
    }

    /// Options that were given and do nothing, as a sentence.
    pub(crate) fn without_effect(&self, options: &SamplingOptions) -> Option<String> {
        let given = [
            ("--top-k", options.top_k.is_some()),
            ("--top-p", options.top_p.is_some()),
            ("--min-p", options.min_p.is_some()),
            ("--seed", options.seed.is_some()),
        ];
        let given: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
        if self.sampling.temperature > 0.0 || given.is_empty() {
            return None;
        }
        let verb = if given.len() == 1 { "does" } else { "do" };
        Some(format!("{} {verb} nothing at temperature 0; give a --temperature too", given.join(", ")))
    }

    /// Changes one setting, as `/set` does.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let named = |error: String| format!("{name}: {error}, found `{value}`");
        let number = |name| parse(name, value).map_err(named);
        let count = || value.parse::<usize>().map_err(|_| named("expected a whole number".to_owned()));
        let s = &mut self.sampling;
        match name {
            "temperature" | "temp" => s.temperature = number(Name::Temperature)?,
            "top_k" => s.top_k = count()?,
            "top_p" => s.top_p = number(Name::TopP)?,
            "min_p" => s.min_p = number(Name::MinP)?,
            "presence_penalty" => s.presence_penalty = number(Name::PresencePenalty)?,
            "frequency_penalty" => s.frequency_penalty = number(Name::FrequencyPenalty)?,
            "repeat_penalty" => s.repetition_penalty = number(Name::RepeatPenalty)?,
            "seed" if value == "random" => self.seed = None,
            "seed" => self.seed = Some(value.parse().map_err(|_| named("expected a number or `random`".to_owned()))?),
            "max_tokens" if value == "none" => self.max_tokens = None,
            "max_tokens" => self.max_tokens = Some(count()?),
            "think" => {
                self.think = match value {
                    "on" => Some(true),
                    "off" => Some(false),
                    "default" => None,
                    _ => return Err(named("expected on, off or default".to_owned())),
                }
            }
            _ => return Err(format!("there is no setting `{name}`; there are: {}", SETTINGS.join(", "))),
        }
        Ok(())
    }

    /// All settings, one to a line.
    pub(crate) fn list(&self) -> String {
        let s = &self.sampling;
        let or = |value: Option<String>, otherwise: &str| value.unwrap_or_else(|| otherwise.to_owned());
        let values = [
            s.temperature.to_string(),
            s.top_k.to_string(),
            s.top_p.to_string(),
            s.min_p.to_string(),
            s.presence_penalty.to_string(),
            s.frequency_penalty.to_string(),
            s.repetition_penalty.to_string(),
            or(self.seed.map(|seed| seed.to_string()), "random"),
            or(self.max_tokens.map(|most| most.to_string()), "none"),
            or(self.think.map(|think| if think { "on" } else { "off" }.to_owned()), "default"),
        ];
        SETTINGS.iter().zip(values).map(|(name, value)| format!("  {name:<18} {value}\n")).collect()
    }
}

/// Names that `/set` knows, in the order of [`Settings::list`].
const SETTINGS: [&str; 10] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repeat_penalty",
    "seed",
    "max_tokens",
    "think",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &SamplingOptions, advice: &SamplingAdvice) -> Settings {
        Settings::new(options, &ReplyOptions::default(), advice)
    }

    #[test]
    fn without_advice_and_options_the_choice_is_greedy() {
        let found = settings(&SamplingOptions::default(), &SamplingAdvice::default());
        assert_eq!(found.request().sampling, Sampling::default());
    }

    #[test]
    fn options_go_before_advice_and_advice_before_defaults() {
        let advice = SamplingAdvice { temperature: Some(0.7), top_p: Some(0.8), top_k: Some(20), ..Default::default() };
        let options = SamplingOptions { top_p: Some(0.5), seed: Some(4), ..Default::default() };
        let found = settings(&options, &advice).request().sampling;
        let expected = Sampling { temperature: 0.7, top_p: 0.5, top_k: 20, seed: 4, ..Sampling::default() };
        assert_eq!(found, expected);
        let greedy = SamplingOptions { temperature: Some(0.0), ..Default::default() };
        assert_eq!(settings(&greedy, &advice).request().sampling.temperature, 0.0);
        let only_k = SamplingAdvice { top_k: Some(5), ..Default::default() };
        assert_eq!(settings(&SamplingOptions::default(), &only_k).request().sampling.temperature, 1.0);
    }

    #[test]
    fn every_reply_has_its_own_seed_unless_one_is_given() {
        let hot = SamplingOptions { temperature: Some(1.0), ..Default::default() };
        let found = settings(&hot, &SamplingAdvice::default());
        assert_ne!(found.request().sampling.seed, found.request().sampling.seed);
        let fixed = settings(&SamplingOptions { seed: Some(9), ..hot }, &SamplingAdvice::default());
        assert_eq!((fixed.request().sampling.seed, fixed.request().sampling.seed), (9, 9));
    }

    #[test]
    fn options_that_do_nothing_are_told() {
        let options = SamplingOptions { top_k: Some(3), seed: Some(1), ..Default::default() };
        let told = settings(&options, &SamplingAdvice::default()).without_effect(&options);
        assert_eq!(told.as_deref(), Some("--top-k, --seed do nothing at temperature 0; give a --temperature too"));
        let hot = SamplingOptions { temperature: Some(1.0), ..options };
        assert_eq!(settings(&hot, &SamplingAdvice::default()).without_effect(&hot), None);
    }

    #[test]
    fn every_setting_can_be_set_and_is_listed() {
        let cases = [
            ("temperature", "0.5"),
            ("top_k", "3"),
            ("top_p", "0.25"),
            ("min_p", "0.125"),
            ("presence_penalty", "-1"),
            ("frequency_penalty", "2"),
            ("repeat_penalty", "1.5"),
            ("seed", "77"),
            ("max_tokens", "12"),
            ("think", "on"),
        ];
        assert_eq!(cases.map(|(name, _)| name), SETTINGS);
        for (name, value) in cases {
            let mut s = settings(&SamplingOptions::default(), &SamplingAdvice::default());
            let before = s.clone();
            s.set(name, value).expect("known");
            assert_ne!(s, before, "{name}");
            assert!(s.list().lines().any(|line| line.split_whitespace().eq([name, value])), "{name}: {}", s.list());
        }
    }

    #[test]
    fn a_setting_out_of_range_or_of_no_name_changes_nothing() {
        let cases = [
            ("temperature", "-1"),
            ("temperature", "NaN"),
            ("top_p", "1.5"),
            ("repeat_penalty", "0"),
            ("top_k", "x"),
            ("think", "maybe"),
            ("seed", ""),
            ("colour", "red"),
        ];
        for (name, value) in cases {
            let mut s = settings(&SamplingOptions::default(), &SamplingAdvice::default());
            let before = s.clone();
            assert!(s.set(name, value).expect_err("refused").contains(name), "{name}");
            assert_eq!(s, before);
        }
    }
}
