//! Which ids a session has read, and the places it can go back to: a new prompt's ids go in, the session is left at the
//! longest part of them that it can reach; it never reads ids itself.

use kinglet_engine::{Result, Session, Snapshot};

/// Places kept to go back to.
const MARKS: usize = 4;

/// The ids that a session holds.
#[derive(Debug, Default)]
pub(crate) struct History {
    ids: Vec<u32>,
    /// By position, oldest first.
    marks: Vec<Snapshot>,
}

impl History {
    /// Moves `session` to a position from which reading the rest of `ids`, at least one, gives what a fresh session
    /// would give. Returns that position.
    pub(crate) fn rewind(&mut self, session: &mut Session, ids: &[u32]) -> Result<usize> {
        let common = self.ids.iter().zip(ids).take_while(|(a, b)| a == b).count();
        if common < self.ids.len() || common == ids.len() {
            self.marks.retain(|mark| mark.position() <= common);
            match self.marks.iter().rfind(|mark| mark.position() < ids.len()) {
                Some(mark) => session.restore(mark)?,
                None => session.clear(),
            }
            self.ids.truncate(session.position());
        }
        Ok(session.position())
    }

    /// Notes that the session has read `ids`.
    pub(crate) fn read(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Keeps the session's present state to go back to.
    pub(crate) fn mark(&mut self, session: &Session) {
        if self.marks.last().is_some_and(|mark| mark.position() == session.position()) {
            return;
        }
        if self.marks.len() == MARKS {
            self.marks.remove(0);
        }
        self.marks.push(session.snapshot());
    }
}
