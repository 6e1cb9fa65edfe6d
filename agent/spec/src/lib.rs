//! The waist: every type that crosses between the two halves of fsdyno, and nothing else.
//!
//! Python decides and remembers, the agent touches disks; they speak only in these types, as JSON.
//! The JSON Schema that `fsdyno-agent schema` prints is made from them, so there is no second list
//! of options anywhere. Rules for widening: a new field has a default, a new variant is a new
//! optional key, nothing is renamed or removed. This crate does no I/O.

pub mod align;
pub mod array;
pub mod describe;
pub mod event;
pub mod histogram;
pub mod machine;
pub mod outcome;
pub mod record;
pub mod request;
pub mod survey;
pub mod trial;
pub mod units;
pub mod workload;

/// Version of the wire format. Raised only when an old reader would misunderstand a new writer.
pub const PROTOCOL: u32 = 1;

/// Version of the measured paths. Raised when a change could move a number; part of the *where*
/// hash, so that results of different engines are never mixed unsaid.
pub const ENGINE: u32 = 1;
