//! Load: what a workload phase is asked to do, and what it answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::units::{Bytes, Seconds};

/// A named file set that phases create, use and delete. Names are computed, never stored:
/// file `n` is `<dataset>/dDDDDD/fFFFFFFFF` with `DDDDD = n / files_per_directory`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Number of files.
    #[schemars(range(min = 1))]
    pub files: u64,
    /// Size of each file; 0 makes empty files.
    #[serde(default)]
    pub size: Bytes,
    /// Files in each directory; the last directory may hold fewer.
    #[serde(default = "default_files_per_directory")]
    #[schemars(range(min = 1))]
    pub files_per_directory: u64,
}

fn default_files_per_directory() -> u64 {
    1000
}

/// A load: exactly one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Sequential I/O over the files of a dataset.
    Stream(Stream),
    /// Random I/O over the files of a dataset.
    Random(Random),
    /// Metadata and small files: create, stat, read, delete.
    Tree(Tree),
}

/// Sequential I/O. Files are dealt to threads; one thread works through a file from its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// What to do.
    pub op: StreamOp,
    /// The file set. `write` makes it; the others need it.
    pub dataset: String,
    /// Bytes per system call.
    #[serde(default = "default_stream_record")]
    pub record: Bytes,
    /// Worker threads; at most one per file.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: u32,
    /// Bypass the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
}

fn default_stream_record() -> Bytes {
    Bytes::kib(128)
}

fn one() -> u32 {
    1
}

/// Kinds of sequential I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamOp {
    /// Make the files and write them.
    Write,
    /// Write over existing files.
    Rewrite,
    /// Read existing files.
    Read,
}

/// Random I/O at record-aligned offsets, uniform over the whole file set; closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// What to do.
    pub op: RandomOp,
    /// The file set; it must exist.
    pub dataset: String,
    /// Bytes per operation.
    #[serde(default = "default_random_record")]
    pub record: Bytes,
    /// Worker threads.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: u32,
    /// Operations in flight per thread; above 1 through `io_uring`.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 4096))]
    pub depth: u32,
    /// Bypass the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
    /// Operations in all, over all threads. This or `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub operations: Option<u64>,
    /// Time to run. This or `operations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Seconds>,
    /// Share of reads in a `mix`, percent.
    #[serde(default = "default_read_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub read_percent: u32,
}

fn default_random_record() -> Bytes {
    Bytes::kib(4)
}

fn default_read_percent() -> u32 {
    60
}

/// Kinds of random I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RandomOp {
    /// Reads.
    Read,
    /// Writes over existing data.
    Write,
    /// Reads and writes in a seeded order, `read_percent` of them reads.
    Mix,
}

/// Work on many small files. Directories are dealt to threads; a thread works in its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// What to do with each file.
    pub op: TreeOp,
    /// The file set. `create` makes it; the others need it.
    pub dataset: String,
    /// Worker threads.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: u32,
    /// Order of the files within a directory.
    #[serde(default)]
    pub order: Order,
    /// When data is forced to the device during `create`. The phase ends with a sync in any case.
    #[serde(default)]
    pub sync: SyncPolicy,
}

/// Kinds of work on many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TreeOp {
    /// Make each file, write it, close it (open, write and close are timed as one operation).
    Create,
    /// `stat` each file.
    Stat,
    /// Open each file, read it whole, close it.
    Read,
    /// Unlink each file, then remove the directories.
    Delete,
}

/// Order in which names are visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As created.
    #[default]
    Sequential,
    /// A seeded permutation.
    Random,
}

/// When a created file is forced to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncPolicy {
    /// Only at the end of the phase.
    #[default]
    End,
    /// `fsync` each file before it is closed.
    File,
}

/// What a workload did and how long each operation took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadResult {
    /// Kind of load: `stream`, `random`, `tree`.
    pub kind: String,
    /// Worker threads that ran.
    pub threads: u32,
    /// Wall time from the first operation to the end of the last one, without the final sync.
    pub elapsed: Seconds,
    /// The final `syncfs`; 0 for loads that write nothing. Inside the phase's clock.
    pub sync: Seconds,
    /// One entry per kind of operation.
    pub operations: Vec<OperationResult>,
    /// Operations and bytes per interval.
    pub series: Series,
    /// How the I/O was done: `pwrite`, `io_uring`, and what the kernel granted.
    pub engine: Vec<String>,
    /// What the kernel's counters must show if the work was done.
    pub claim: Claim,
    /// What fsdyno itself added to each operation.
    pub tool_cost: ToolCost,
}

/// One kind of operation within a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationResult {
    /// `read`, `write`, `create`, `stat`, `delete`, `fsync`, `mkdir`, `rmdir`.
    pub op: String,
    /// Operations completed.
    pub count: u64,
    /// Bytes moved by them.
    pub bytes: Bytes,
    /// Latency of each, merged over threads.
    pub latency: Histogram,
}

/// Work done per interval, from counters that the workers publish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Length of an interval.
    pub interval: Seconds,
    /// Operations completed in each.
    pub operations: Vec<u64>,
    /// Bytes moved in each.
    pub bytes: Vec<u64>,
}

/// What the kernel's counters must at least show if the workload did what it says. Judged by the
/// phase loop, which has the counters; a shortfall is the doubt `unproven`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Bytes that must have been read from the leaves (direct reads, or reads right after a cold
    /// remount: the phase loop decides whether the cache was cold).
    pub read: Bytes,
    /// Bytes that must have been written to the leaves by the end of the final sync.
    pub written: Bytes,
    /// True when `read` holds whatever the cache state (direct I/O).
    pub direct: bool,
    /// Change in the number of inodes in use.
    pub inodes: i64,
}

/// What fsdyno itself costs, from the calibration at start and the count of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCost {
    /// Clock reads, histogram and bookkeeping, ns per operation.
    pub per_operation_ns: f64,
    /// Share of the threads' time that this makes, 0 to 1.
    pub share: f64,
}
