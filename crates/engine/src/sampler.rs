//! Logits to an id: a logits row and the ids so far go in, one id comes out, the same one for the same seed.
//!
//! Order, as in the reference's generation code: repetition, frequency and presence penalties; temperature; top-k;
//! top-p; min-p; draw. Repetition counts prompt and reply, frequency and presence the reply only. Temperature 0 takes
//! the largest logit after penalties, the smallest id among equals.

use kinglet_kernels::portable::exp;

use crate::error::{Error, Result};

/// How to choose the next id.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 chooses the largest logit; larger values even the odds.
    pub temperature: f32,
    /// Keep this many candidates; 0 keeps all.
    pub top_k: usize,
    /// Keep the fewest candidates that hold this share of the probability, `0..=1`; 1 keeps all.
    pub top_p: f32,
    /// Drop candidates below this share of the best one's probability, `0..=1`; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of ids seen; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Subtracted once per occurrence in the reply.
    pub frequency_penalty: f32,
    /// Subtracted once if it occurs in the reply.
    pub presence_penalty: f32,
    /// Start of the random sequence.
    pub seed: u64,
}

impl Default for Sampling {
    /// Greedy, without penalties.
    fn default() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            seed: 0,
        }
    }
}

/// Chooses ids for one reply.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    state: u64,
    /// Occurrences in the reply, and whether the id was in the prompt, per id; empty without penalties.
    seen: Vec<(u32, bool)>,
    candidates: Vec<(f32, u32)>,
}

impl Sampler {
    /// A sampler for a reply to `prompt`; `vocab` is the length of the logits.
    pub fn new(sampling: Sampling, vocab: usize, prompt: &[u32]) -> Sampler {
        let penalised =
            sampling.repetition_penalty != 1.0 || sampling.frequency_penalty != 0.0 || sampling.presence_penalty != 0.0;
        let mut seen = vec![(0, false); if penalised { vocab } else { 0 }];
        for id in prompt {
            if let Some(entry) = seen.get_mut(*id as usize) {
                entry.1 = true;
            }
        }
        let candidates = Vec::with_capacity(if sampling.temperature > 0.0 { vocab } else { 0 });
        Sampler { state: sampling.seed, sampling, seen, candidates }
    }

    /// The next id. Changes `logits` by the penalties, and remembers the id for them.
    ///
    /// # Errors
    /// A logit that is not finite.
    pub fn choose(&mut self, logits: &mut [f32]) -> Result<u32> {
        if let Some((id, value)) = logits.iter().enumerate().find(|(_, v)| !v.is_finite()) {
            return Err(Error::NotFinite { id, value: *value });
        }
        self.penalise(logits);
        let id = if self.sampling.temperature > 0.0 { self.draw(logits) } else { largest(logits) };
        if let Some(entry) = self.seen.get_mut(id as usize) {
            entry.0 += 1;
        }
        Ok(id)
    }

    fn penalise(&self, logits: &mut [f32]) {
        let s = &self.sampling;
        for (logit, (count, in_prompt)) in logits.iter_mut().zip(&self.seen) {
            if *count > 0 || *in_prompt {
                *logit = if *logit > 0.0 { *logit / s.repetition_penalty } else { *logit * s.repetition_penalty };
            }
            if *count > 0 {
                *logit -= *count as f32 * s.frequency_penalty + s.presence_penalty;
            }
        }
    }

    fn draw(&mut self, logits: &[f32]) -> u32 {
        let s = &self.sampling;
        let best_first = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let c = &mut self.candidates;
        c.clear();
        c.extend(logits.iter().zip(0u32..).map(|(logit, id)| (logit / s.temperature, id)));
        if (1..c.len()).contains(&s.top_k) {
            c.select_nth_unstable_by(s.top_k - 1, best_first);
            c.truncate(s.top_k);
        }
        c.sort_unstable_by(best_first);
        let best = c[0].0;
        let mut total = 0.0f64;
        for candidate in c.iter_mut() {
            candidate.0 = exp(candidate.0 - best);
            total += f64::from(candidate.0);
        }
        let mut kept = 0;
        let mut mass = 0.0f64;
        while kept < c.len() && (kept == 0 || (mass < f64::from(s.top_p) * total && c[kept].0 >= s.min_p)) {
            mass += f64::from(c[kept].0);
            kept += 1;
        }
        let mut point = unit(&mut self.state) * mass;
        for (weight, id) in &c[..kept] {
            point -= f64::from(*weight);
            if point < 0.0 {
                return *id;
            }
        }
        c[kept - 1].1
    }
}

/// The id of the largest logit, the smallest id among equals.
pub fn largest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// The next number of a SplitMix64 sequence, in `0..1`.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sampling: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(sampling, logits.len(), &[]);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.choose(&mut logits.to_vec()).expect("finite") as usize] += 1;
        }
        counts
    }

    #[test]
    fn draws_follow_the_softmax() {
        let logits = [0.0, 1.0, 2.0, -1.0];
        let found = counts(Sampling { temperature: 1.0, ..Sampling::default() }, &logits, 40_000);
        let total: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
        for (count, logit) in found.iter().zip(logits) {
            let expected = f64::from(logit).exp() / total;
            assert!((*count as f64 / 40_000.0 - expected).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn each_cut_drops_what_it_says() {
        let logits = [0.0, 1.0, 2.0, 3.0];
        let hot = Sampling { temperature: 1.0, ..Sampling::default() };
        let kept = |s: Sampling| counts(s, &logits, 2000).iter().map(|c| *c > 0).collect::<Vec<_>>();
        assert_eq!(kept(Sampling { top_k: 2, ..hot.clone() }), [false, false, true, true]);
        // Shares are .032 .087 .237 .644: the best two hold .881.
        assert_eq!(kept(Sampling { top_p: 0.8, ..hot.clone() }), [false, false, true, true]);
        assert_eq!(kept(Sampling { top_p: 0.9, ..hot.clone() }), [false, true, true, true]);
        assert_eq!(kept(Sampling { min_p: 0.2, ..hot.clone() }), [false, false, true, true]);
        assert_eq!(kept(Sampling { top_p: 0.0, ..hot }), [false, false, false, true]);
    }

    #[test]
    fn the_same_seed_gives_the_same_ids_and_another_seed_others() {
        let run = |seed| {
            let mut s = Sampler::new(Sampling { temperature: 1.0, seed, ..Sampling::default() }, 50, &[]);
            (0..30).map(|_| s.choose(&mut [0.0; 50]).expect("finite")).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn penalties_move_the_choice() {
        let choose = |sampling: Sampling, prompt: &[u32]| {
            let mut sampler = Sampler::new(sampling, 3, prompt);
            (0..4).map(|_| sampler.choose(&mut [1.0, 0.9, 0.1]).expect("finite")).collect::<Vec<_>>()
        };
        assert_eq!(choose(Sampling::default(), &[]), [0, 0, 0, 0]);
        let presence = Sampling { presence_penalty: 0.5, ..Sampling::default() };
        assert_eq!(choose(presence.clone(), &[]), [0, 1, 0, 0]);
        assert_eq!(choose(presence, &[0]), [0, 1, 0, 0], "presence does not see the prompt");
        assert_eq!(choose(Sampling { frequency_penalty: 0.3, ..Sampling::default() }, &[]), [0, 1, 0, 1]);
        assert_eq!(choose(Sampling { repetition_penalty: 2.0, ..Sampling::default() }, &[0]), [1, 0, 0, 0]);
    }

    #[test]
    fn a_logit_that_is_not_finite_is_an_error() {
        let mut sampler = Sampler::new(Sampling::default(), 2, &[]);
        assert!(matches!(sampler.choose(&mut [1.0, f32::NAN]), Err(Error::NotFinite { id: 1, .. })));
        assert!(matches!(sampler.choose(&mut [f32::INFINITY, 0.0]), Err(Error::NotFinite { id: 0, .. })));
    }
}
