//! The agent's tables: file systems with their options, phases, workloads, metrics. Everything
//! that Python says about them on screen comes from here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::units::Bytes;

/// The answer of `fsdyno-agent describe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Describe {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
    /// [`crate::ENGINE`].
    pub engine: u32,
    /// File systems in the order of the table.
    pub filesystems: Vec<FileSystemInfo>,
    /// Metrics that samples are made of.
    pub metrics: Vec<MetricInfo>,
    /// Phase kinds with what they do.
    pub phases: BTreeMap<String, String>,
    /// Workload kinds with what they stand for.
    pub workloads: BTreeMap<String, String>,
}

/// A file system as the table has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemInfo {
    /// Its type, as in a plan.
    pub name: String,
    /// One line.
    pub summary: String,
    /// Whether it lives on a block device.
    pub needs_device: bool,
    /// The smallest device that its mkfs takes.
    pub minimum_size: Bytes,
    /// Means by which barriers can be turned off: `mount option`, `queue`, or none.
    pub barrier_off: Option<String>,
    /// Whether it sends flushes at all. One that does not is always without barriers, and never ranked
    /// against one with them unsaid.
    pub flushes: bool,
    /// Check modes it has; empty: no checker exists.
    pub checks: Vec<String>,
    /// What its rows should be read with.
    pub notes: Vec<String>,
    /// Options by name.
    pub options: Vec<OptionInfo>,
}

/// An option of a file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OptionInfo {
    /// As in a plan.
    pub name: String,
    /// JSON Schema of its value.
    pub value: Value,
    /// `mkfs`, `mount` or `check`.
    pub stage: String,
    /// What it does, and the tool's own spelling.
    pub help: String,
}

/// A metric: what a sample means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricInfo {
    /// Name, e.g. `operations_per_second`.
    pub name: String,
    /// Unit, e.g. `1/s`, `s`, `B/s`, `1`.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Raised when the definition changes.
    pub version: u32,
    /// How it follows from the events.
    pub definition: String,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: a count that explains.
    Neither,
}
