//! Token ids go in, logits come out: the forward pass of a plan over its weights, with exact sessions; it never sees a
//! string, a file or a chat role.
//!
//! The logits of a position depend on the ids up to it and on nothing else: not on how the ids were cut into calls, on
//! the number of threads, on other sessions, on a snapshot in between or on the CPU (`docs/numerics.md`).
//!
//! Rooms, in reading order: [`Engine`] (one step, top to bottom), [`session`] (what a conversation remembers),
//! [`activation`] (how inputs are rounded), [`memory`] (what it will cost), [`sampler`] (logits to an id).

#![forbid(unsafe_code)]

pub mod activation;
mod attention;
mod delta;
pub mod error;
mod forward;
mod linear;
pub mod memory;
pub mod sampler;
mod scratch;
pub mod session;

use std::sync::Arc;

use kinglet_kernels::Kernels;
use kinglet_model::{Plan, Weights};
use kinglet_pool::Pool;

pub use activation::{Activation, Activations};
pub use error::{Error, Result};
pub use memory::MemoryUse;
pub use sampler::{Sampler, Sampling};
pub use session::{Session, Snapshot};

use scratch::Scratch;

/// Most tokens that one pass over the weights carries.
pub const MAX_CHUNK: usize = 256;

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that work, the caller included.
    pub threads: usize,
    /// The kernels to use.
    pub kernels: &'static Kernels,
    /// How inputs of integer weights are rounded.
    pub activations: Activations,
    /// Most tokens that one pass over the weights carries, `1..=`[`MAX_CHUNK`]. Does not change a bit of the result.
    pub chunk: usize,
    /// Whether the memory that a layer's mapped weights are in is given back once the layer is done: little of a file is
    /// resident then, and every pass reads all of it again.
    pub releases_weights: bool,
}

impl Options {
    /// The fastest kernels of this CPU and the default rounding.
    pub fn new(threads: usize) -> Options {
        Options {
            threads,
            kernels: kinglet_kernels::best(),
            activations: Activations::default(),
            chunk: MAX_CHUNK,
            releases_weights: false,
        }
    }
}

/// Which logits a call is to compute.
#[derive(Debug)]
pub enum Want<'a> {
    /// None: the ids are only read.
    Nothing,
    /// Of the last id, `[vocab]`.
    Last(&'a mut [f32]),
    /// Of every id, `[t, vocab]`.
    Every(&'a mut [f32]),
}

/// Runs one model on this machine's CPU.
pub struct Engine {
    plan: Arc<Plan>,
    weights: Arc<Weights>,
    kernels: &'static Kernels,
    pool: Pool,
    activations: Activations,
    chunk: usize,
    releases_weights: bool,
    scratch: Scratch,
}

impl Engine {
    /// Sets up threads and scratch memory for a model.
    pub fn new(plan: Arc<Plan>, weights: Arc<Weights>, options: &Options) -> Engine {
        let chunk = options.chunk.clamp(1, MAX_CHUNK);
        Engine {
            pool: Pool::new(options.threads),
            kernels: options.kernels,
            activations: options.activations.clone(),
            scratch: Scratch::new(&plan, chunk),
            chunk,
            releases_weights: options.releases_weights,
            plan,
            weights,
        }
    }

    /// The model's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The kernels in use.
    pub fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Threads in use, the caller included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Most tokens that one pass over the weights carries.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// A new, empty session with room for `context` positions.
    pub fn session(&self, context: usize) -> Session {
        Session::new(Arc::clone(&self.plan), context)
    }

    /// Reads `ids` into `session` and computes the wanted logits.
    ///
    /// Nothing is changed when an error is returned.
    ///
    /// # Errors
    /// No ids, an id outside the vocabulary, more ids than the session has room for, a session of another engine's
    /// model, or a logits slice of the wrong length: all found before any work.
    pub fn advance(&mut self, session: &mut Session, ids: &[u32], mut want: Want<'_>) -> Result<()> {
        self.check(session, ids, &want)?;
        let vocab = self.plan.vocab;
        let mut done = 0;
        for chunk in ids.chunks(self.chunk) {
            let last = done + chunk.len() == ids.len();
            let logits = match &mut want {
                Want::Every(out) => Want::Every(&mut out[done * vocab..(done + chunk.len()) * vocab]),
                Want::Last(out) if last => Want::Last(out),
                _ => Want::Nothing,
            };
            self.forward(session, chunk, logits);
            done += chunk.len();
        }
        Ok(())
    }

    fn check(&self, session: &Session, ids: &[u32], want: &Want<'_>) -> Result<()> {
        if !Arc::ptr_eq(&session.plan, &self.plan) {
            return Err(Error::ForeignSession);
        }
        if ids.is_empty() {
            return Err(Error::NoIds);
        }
        if let Some((index, id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= self.plan.vocab) {
            return Err(Error::IdOutOfRange { index, id: *id, vocab: self.plan.vocab });
        }
        if ids.len() > session.remaining() {
            return Err(Error::ContextFull { used: session.position(), asked: ids.len(), limit: session.capacity() });
        }
        let (found, expected) = match want {
            Want::Nothing => (0, 0),
            Want::Last(out) => (out.len(), self.plan.vocab),
            Want::Every(out) => (out.len(), ids.len() * self.plan.vocab),
        };
        if found != expected {
            return Err(Error::LogitsLength { expected, found });
        }
        Ok(())
    }
}
