//! What people are told to type for a file system on an array: the plain command lines, without what
//! trials need besides (a UUID of their own, no discards, nothing lazy).

use fsdyno_spec::align::Step;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::geometry::Geometry;
use crate::plan::quote;

/// What a file system is to be advised about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The array below; none if nothing is striped.
    pub geometry: Option<&'a Geometry>,
    /// Bytes of a block.
    pub block_size: u64,
    /// Node that it goes on.
    pub device: &'a str,
    /// Its size, if that is known.
    pub size: Option<Bytes>,
    /// Where it is to be mounted.
    pub point: &'a str,
}

/// What to do about a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// In the order of doing it.
    pub steps: Vec<Step>,
    /// Why numbers are stated that its mkfs might find, and what else is to be known.
    pub notes: Vec<String>,
}

/// Advice of a row, or why the file system cannot have this geometry.
pub type Advise = fn(&Asked<'_>) -> Result<Hints, Reason>;

impl Asked<'_> {
    /// A step with a command of this program, these words and the device.
    pub(crate) fn make(&self, filesystem: &str, program: &str, words: &str, why: impl Into<String>) -> Step {
        let space = if words.is_empty() { "" } else { " " };
        step("mkfs", filesystem, format!("{program}{space}{words} {}", quote(self.device)), why)
    }

    /// The mount; `why` on top of what holds for each.
    pub(crate) fn mount(&self, filesystem: &str, why: &str) -> Step {
        let command = format!("mount -o noatime {} {}", quote(self.device), quote(self.point));
        step("mount", filesystem, command, format!("reading then writes no access times; {why}"))
    }
}

/// A step about a file system.
pub(crate) fn step(kind: &str, filesystem: &str, command: String, why: impl Into<String>) -> Step {
    Step { kind: kind.to_string(), filesystem: Some(filesystem.to_string()), command, why: why.into() }
}

#[cfg(test)]
#[path = "advise_tests.rs"]
mod tests;
