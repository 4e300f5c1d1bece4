//! Ctrl-C: signals go in, a flag that the reply's loop asks comes out; while no reply is being made it ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    replying: AtomicBool,
    /// Whether a second request is left to whoever heeds the first: what was begun on disk must be taken away.
    patient: AtomicBool,
    asked: AtomicBool,
}

impl Interrupt {
    /// Installs the handler; call it once.
    ///
    /// The first Ctrl-C during a reply is left to whoever makes it. A second one, and one at any other time, ends the
    /// program at once: loading cannot be asked to stop.
    pub(crate) fn install() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let handler = interrupt.clone();
        ctrlc::set_handler(move || {
            if !handler.request() {
                // There is nobody to return to, and no output to lose.
                std::process::exit(i32::from(EXIT_CODE));
            }
        })?;
        Ok(interrupt)
    }

    /// Notes a wish to stop; `false` when no reply is there to heed it.
    pub(crate) fn request(&self) -> bool {
        let replying = self.0.replying.load(Ordering::Relaxed);
        replying && (!self.0.asked.swap(true, Ordering::Relaxed) || self.0.patient.load(Ordering::Relaxed))
    }

    /// Work on files begins, which must not be left half-made: all wishes are left to it until [`end`](Self::end).
    pub(crate) fn begin_files(&self) {
        self.0.patient.store(true, Ordering::Relaxed);
        self.begin();
    }

    /// A reply begins: earlier wishes are not about it.
    pub(crate) fn begin(&self) {
        self.0.asked.store(false, Ordering::Relaxed);
        self.0.replying.store(true, Ordering::Relaxed);
    }

    /// The reply is over.
    pub(crate) fn end(&self) {
        self.0.replying.store(false, Ordering::Relaxed);
    }

    /// Whether the reply is to stop.
    pub(crate) fn asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_files_is_never_ended_at_once() {
        let interrupt = Interrupt::default();
        interrupt.begin_files();
        assert!(interrupt.request() && interrupt.request() && interrupt.asked());
        interrupt.end();
        assert!(!interrupt.request(), "once it is done");
    }

    #[test]
    fn only_the_first_request_during_a_reply_is_heeded() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.request(), "before a reply");
        interrupt.begin();
        assert!(!interrupt.asked());
        assert!(interrupt.request());
        assert!(interrupt.asked());
        assert!(!interrupt.request(), "a second time");
        interrupt.end();
        interrupt.begin();
        assert!(!interrupt.asked(), "an old wish is not about a new reply");
    }
}
