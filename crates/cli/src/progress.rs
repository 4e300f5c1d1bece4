//! A bar for work that takes long: counts go in, a bar on a terminal comes out, and nothing for work that is short or
//! that nobody watches.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(400);

/// A bar that appears when the work turns out to be long.
pub(crate) struct Progress {
    watched: bool,
    label: &'static str,
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `watched`: whether stderr is a terminal.
    pub(crate) fn new(watched: bool, label: &'static str) -> Progress {
        Progress { watched, label, begun: Instant::now(), bar: None }
    }

    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if !self.watched || self.begun.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style =
                ProgressStyle::with_template("{msg} [{bar:32}] {percent:>3} %").map(|s| s.progress_chars("=> "));
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(self.label)
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
