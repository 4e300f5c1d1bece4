//! What a conversation remembers: cached keys and values, convolution tails and delta states; positions go up, and back
//! only to a snapshot.
//!
//! Keys and values live in pages of [`PAGE`] positions. A full page never changes again, so snapshots and forks share
//! it; the page being filled is copied. Delta states cannot be cut back, so they are copied whole: their size does not
//! depend on the position.

use std::sync::Arc;

use kinglet_model::{Mixer, Plan};

use crate::error::{Error, Result};

/// Positions in a page: the attention kernels' block.
pub const PAGE: usize = kinglet_kernels::ATTENTION_BLOCK;

/// Keys and values of one layer at [`PAGE`] positions, each `[kv_heads, PAGE, head_dim]`.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// One layer's part of a session.
#[derive(Debug)]
pub(crate) enum LayerState {
    /// One page per [`PAGE`] positions of room.
    Attention(Vec<Arc<Page>>),
    Delta {
        /// The convolution's last inputs, `[taps - 1, channels]`, oldest first.
        tail: Vec<f32>,
        /// `[value_heads, key_dim, value_dim]`.
        state: Vec<f32>,
    },
}

/// One conversation's state.
#[derive(Debug)]
pub struct Session {
    pub(crate) plan: Arc<Plan>,
    pub(crate) layers: Vec<LayerState>,
    pub(crate) position: usize,
    capacity: usize,
}

/// A session's state at one position, to go back to or to continue from several times.
#[derive(Debug)]
pub struct Snapshot {
    plan: Arc<Plan>,
    layers: Vec<LayerState>,
    position: usize,
}

fn empty_page(plan: &Plan) -> Arc<Page> {
    let len = plan.attention.kv_heads * PAGE * plan.attention.head_dim;
    Arc::new(Page { keys: vec![0.0; len], values: vec![0.0; len] })
}

/// Layers that share the full pages below `position`, own a copy of the rest, and have room for `capacity` positions.
fn continue_from(plan: &Plan, layers: &[LayerState], position: usize, capacity: usize) -> Vec<LayerState> {
    let full = position / PAGE;
    let copy = |layer: &LayerState| match layer {
        LayerState::Attention(pages) => {
            let shared = pages[..full].iter().cloned();
            let begun = pages[full..position.div_ceil(PAGE)]
                .iter()
                .map(|page| Arc::new(Page { keys: page.keys.clone(), values: page.values.clone() }));
            let fresh = (position.div_ceil(PAGE)..capacity.div_ceil(PAGE)).map(|_| empty_page(plan));
            LayerState::Attention(shared.chain(begun).chain(fresh).collect())
        }
        LayerState::Delta { tail, state } => LayerState::Delta { tail: tail.clone(), state: state.clone() },
    };
    layers.iter().map(copy).collect()
}

impl Session {
    pub(crate) fn new(plan: Arc<Plan>, capacity: usize) -> Session {
        let layer = |mixer: &Mixer| match mixer {
            Mixer::GatedAttention => {
                LayerState::Attention((0..capacity.div_ceil(PAGE)).map(|_| empty_page(&plan)).collect())
            }
            Mixer::GatedDeltaNet => LayerState::Delta {
                tail: vec![0.0; (plan.delta.taps - 1) * plan.delta.channels()],
                state: vec![0.0; plan.delta.state_len()],
            },
        };
        let layers = plan.layers.iter().map(layer).collect();
        Session { plan, layers, position: 0, capacity }
    }

    /// Ids read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Ids it has room for in all.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Ids it still has room for.
    pub fn remaining(&self) -> usize {
        self.capacity - self.position
    }

    /// The state at this position. Costs the delta states and at most one page per attention layer.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            plan: Arc::clone(&self.plan),
            layers: continue_from(&self.plan, &self.layers, self.position, self.position),
            position: self.position,
        }
    }

    /// Goes to the state of `snapshot`, taken from any session of the same model.
    ///
    /// # Errors
    /// The snapshot is of another model, or at a position beyond this session's room; nothing is changed then.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        if !Arc::ptr_eq(&self.plan, &snapshot.plan) {
            return Err(Error::ForeignSession);
        }
        if snapshot.position > self.capacity {
            return Err(Error::ContextFull { used: 0, asked: snapshot.position, limit: self.capacity });
        }
        self.layers = continue_from(&self.plan, &snapshot.layers, snapshot.position, self.capacity);
        self.position = snapshot.position;
        Ok(())
    }

    /// A second session in the same state, with the same room.
    pub fn fork(&self) -> Session {
        Session {
            plan: Arc::clone(&self.plan),
            layers: continue_from(&self.plan, &self.layers, self.position, self.capacity),
            position: self.position,
            capacity: self.capacity,
        }
    }

    /// Forgets everything: the state of a session just made.
    pub fn clear(&mut self) {
        *self = Session::new(Arc::clone(&self.plan), self.capacity);
    }

    /// The convolution tail `[taps - 1, channels]` and the state `[value_heads, key_dim, value_dim]` of a delta-rule
    /// layer; `None` for other layers.
    pub fn delta_state(&self, layer: usize) -> Option<(&[f32], &[f32])> {
        match self.layers.get(layer)? {
            LayerState::Delta { tail, state } => Some((tail, state)),
            LayerState::Attention(_) => None,
        }
    }

    /// The cached key and value, `[head_dim]` each, of one head at one position of an attention layer; `None` where
    /// there is none.
    pub fn key_value(&self, layer: usize, head: usize, position: usize) -> Option<(&[f32], &[f32])> {
        let LayerState::Attention(pages) = self.layers.get(layer)? else { return None };
        if position >= self.position || head >= self.plan.attention.kv_heads {
            return None;
        }
        let d = self.plan.attention.head_dim;
        let at = (head * PAGE + position % PAGE) * d;
        let page = &pages[position / PAGE];
        Some((&page.keys[at..at + d], &page.values[at..at + d]))
    }
}

impl Snapshot {
    /// The position it was taken at.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes that only this snapshot may hold: delta states, tails and the page that was being filled. Full pages are
    /// shared.
    pub fn bytes(&self) -> usize {
        let layer = |layer: &LayerState| match layer {
            LayerState::Delta { tail, state } => 4 * (tail.len() + state.len()),
            LayerState::Attention(pages) if !self.position.is_multiple_of(PAGE) => {
                pages.last().map_or(0, |page| 4 * (page.keys.len() + page.values.len()))
            }
            LayerState::Attention(_) => 0,
        };
        self.layers.iter().map(layer).sum()
    }
}
