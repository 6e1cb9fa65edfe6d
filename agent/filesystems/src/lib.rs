//! One file per file system, one row each in one table: everything that fsdyno knows about a file
//! system by name. Descriptions and superblock reading only; no device is opened here.

pub mod plan;

pub use plan::{CommandLine, MountPlan};
