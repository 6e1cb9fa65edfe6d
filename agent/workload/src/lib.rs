//! Load generation. This crate knows paths and descriptors, not file systems: it is given a folder,
//! a dataset and a workload, and answers what was done, how long each operation took, and what the
//! kernel's counters must show if it is true.
//!
//! Rules of the hot paths: one pinned thread per worker, with its own descriptor table, buffers and
//! counters; no lock, no shared read-modify-write and no allocation while the clock runs; data by
//! `pread`/`pwrite` or `io_uring`; metadata by `*at` calls on the leaf directory's descriptor, never
//! by `io_uring`, which hands each of them to a kernel worker.

mod buffer;
mod claims;
mod content;
mod crew;
mod failure;
mod files;
mod limits;
mod names;
mod order;
mod random;
mod ring;
mod series;
mod stream;
mod tree;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsdyno_spec::event::Calibration;
use fsdyno_spec::units::Seconds;
use fsdyno_spec::workload::{Claim, Dataset, OperationResult, ToolCost, Workload, WorkloadResult};

pub use content::verify;
pub use failure::Failure;
pub use files::forget;
pub use limits::validate;

/// A workload phase to run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The folder that holds the datasets.
    pub root: &'a Path,
    /// The dataset's name.
    pub name: &'a str,
    /// The dataset.
    pub dataset: &'a Dataset,
    /// What to do with it.
    pub workload: &'a Workload,
    /// Seed of contents.
    pub seed: u64,
    /// Seed of orders and offsets: another one for each phase of a trial, so that no phase visits
    /// the places that the one before it has warmed.
    pub order_seed: u64,
    /// Set by anybody to end the phase soon: the answer is then a failure, *cancelled*.
    pub stop: &'a AtomicBool,
    /// Where the share of work done is published, ten times a second.
    pub progress: &'a Progress,
    /// What measuring costs here.
    pub calibration: &'a Calibration,
}

/// How far a phase has come, for whoever reports on it.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Share of the work done, 0 to 1; none before it began.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let total = self.total.load(Ordering::Relaxed);
        (total > 0).then(|| (self.done.load(Ordering::Relaxed) as f64 / total as f64).min(1.0))
    }

    pub(crate) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

/// Runs a workload to its end. Data that it wrote is on the device when it returns.
///
/// # Errors
/// [`Failure`]: a setting that cannot be, a file that is not there, an error of the kernel, or
/// [`Job::stop`].
pub fn run(job: &Job) -> Result<WorkloadResult, Failure> {
    validate(job.workload, job.dataset).map_err(Failure::failed)?;
    match job.workload {
        Workload::Stream(stream) => stream::run(job, stream),
        Workload::Random(random) => random::run(job, random),
        Workload::Tree(tree) => tree::run(job, tree),
    }
}

/// Brings what was written to the device, if anything was. Comes right after the last operation: what
/// the kernel writes back in between would be free.
pub(crate) fn settle(job: &Job, writes: bool) -> Result<Seconds, Failure> {
    if writes { files::sync(job.root) } else { Ok(Seconds(0.0)) }
}

/// Puts the answer together.
pub(crate) fn finish(
    job: &Job,
    kind: &str,
    threads: u32,
    done: crew::Done,
    claim: Claim,
    sync: Seconds,
    prepare_ns: f64,
) -> WorkloadResult {
    let count: u64 = done.operations.iter().map(|op| op.recorder.count()).sum();
    let per_operation_ns = job.calibration.operation_ns + prepare_ns;
    let share = per_operation_ns * count as f64 / (done.thread_ns as f64).max(1.0);
    let wire = |op: crew::Operation| OperationResult {
        op: op.name.to_string(),
        count: op.recorder.count(),
        bytes: fsdyno_spec::units::Bytes(op.bytes),
        latency: op.recorder.wire(),
    };
    WorkloadResult {
        kind: kind.to_string(),
        threads,
        elapsed: Seconds(done.elapsed_ns as f64 / 1e9),
        sync,
        operations: done.operations.into_iter().map(wire).collect(),
        series: done.series,
        engine: done.engine,
        claim,
        tool_cost: ToolCost { per_operation_ns, share: share.min(1.0) },
    }
}
