//! The fields that led to a table: kept without allocating, written out only in an error.

use std::fmt::{Display, Formatter};

use crate::{Error, Problem};

/// Most tables that may nest, the root included.
pub const DEPTH: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Step {
    name: &'static str,
    index: Option<u32>,
}

/// Steps from the root, the root's name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    steps: [Step; DEPTH + 1],
    len: u8,
}

impl Trail {
    pub(crate) fn new(root: &'static str) -> Trail {
        Trail { steps: [Step { name: root, index: None }; DEPTH + 1], len: 1 }
    }

    /// This trail and one field more; one step beyond [`DEPTH`] is kept, so that the error of depth shows it.
    pub(crate) fn then(&self, name: &'static str) -> Trail {
        let mut longer = *self;
        longer.steps[self.len as usize % (DEPTH + 1)] = Step { name, index: None };
        longer.len = (self.len + 1).min(DEPTH as u8 + 1);
        longer
    }

    /// This trail, its last field a vector of which element `index` is meant.
    pub(crate) fn at(&self, index: u32) -> Trail {
        let mut element = *self;
        element.steps[self.len as usize - 1].index = Some(index);
        element
    }

    /// Whether a table may stand at the end of this trail.
    pub(crate) fn too_deep(&self) -> bool {
        self.len as usize > DEPTH
    }

    /// This table itself, as the place of a fault.
    pub(crate) fn here(&self) -> Place<'_> {
        Place { trail: self, field: None }
    }

    /// A field of this table, as the place of a fault.
    pub(crate) fn field(&self, name: &'static str) -> Place<'_> {
        Place { trail: self, field: Some(name) }
    }
}

/// Where a fault would be: cheap to make for every read, written out only in an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'t> {
    trail: &'t Trail,
    field: Option<&'static str>,
}

impl Place<'_> {
    pub(crate) fn error(&self, offset: u64, problem: Problem) -> Error {
        let path = match self.field {
            Some(name) => format!("{}.{name}", self.trail),
            None => self.trail.to_string(),
        };
        Error { path, offset, problem }
    }
}

impl Display for Trail {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (n, step) in self.steps[..self.len as usize].iter().enumerate() {
            let dot = if n == 0 { "" } else { "." };
            write!(f, "{dot}{}", step.name)?;
            if let Some(index) = step.index {
                write!(f, "[{index}]")?;
            }
        }
        Ok(())
    }
}
