//! A dataset in a folder of its own, and a short way to run a workload on it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fsdyno_spec::event::Calibration;
use fsdyno_spec::units::{Bytes, Seconds};
use fsdyno_spec::workload::{
    Dataset, OperationResult, Order, Random, RandomOp, Stream, StreamOp, SyncPolicy, Tree, TreeOp, Workload,
    WorkloadResult,
};
use fsdyno_workload::{Failure, Job, Progress, run};

pub const NAME: &str = "set";
pub const SEED: u64 = 42;

pub struct Place {
    pub folder: tempfile::TempDir,
    pub dataset: Dataset,
    pub stop: AtomicBool,
    pub progress: Progress,
}

impl Place {
    pub fn new(files: u64, size: u64, files_per_directory: u64) -> Self {
        Self::within(&std::env::temp_dir(), files, size, files_per_directory)
    }

    pub fn within(parent: &Path, files: u64, size: u64, files_per_directory: u64) -> Self {
        Self {
            folder: tempfile::tempdir_in(parent).expect("a temporary folder"),
            dataset: Dataset { files, size: Bytes(size), files_per_directory },
            stop: AtomicBool::new(false),
            progress: Progress::default(),
        }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, number: u64) -> PathBuf {
        let directory = number / self.dataset.files_per_directory;
        self.root().join(NAME).join(format!("d{directory:05}/f{number:08}"))
    }

    pub fn run(&self, workload: Workload) -> Result<WorkloadResult, Failure> {
        self.run_seeded(workload, SEED)
    }

    pub fn run_seeded(&self, workload: Workload, seed: u64) -> Result<WorkloadResult, Failure> {
        let calibration =
            Calibration { clock: "tsc".into(), clock_ns: 10.0, operation_ns: 20.0, syscall_ns: 50.0 };
        run(&Job {
            root: self.root(),
            name: NAME,
            dataset: &self.dataset,
            workload: &workload,
            seed,
            order_seed: seed,
            stop: &self.stop,
            progress: &self.progress,
            calibration: &calibration,
        })
    }

    pub fn done(&self, workload: Workload) -> WorkloadResult {
        self.run(workload).expect("the workload runs")
    }

    pub fn fails(&self, workload: Workload) -> Failure {
        self.run(workload).expect_err("the workload fails")
    }

    pub fn verify(&self) {
        fsdyno_workload::verify(self.root(), NAME, &self.dataset, SEED).expect("every byte as written");
    }
}

pub fn tree(op: TreeOp, threads: u32) -> Workload {
    Workload::Tree(Tree {
        op,
        dataset: NAME.into(),
        threads,
        order: Order::Sequential,
        sync: SyncPolicy::End,
    })
}

pub fn stream(op: StreamOp, record: u64, threads: u32, direct: bool) -> Workload {
    Workload::Stream(Stream { op, dataset: NAME.into(), record: Bytes(record), threads, direct })
}

pub fn random(
    op: RandomOp,
    record: u64,
    threads: u32,
    depth: u32,
    direct: bool,
    operations: u64,
) -> Workload {
    Workload::Random(Random { operations: Some(operations), ..base(op, record, threads, depth, direct) })
}

pub fn random_for(op: RandomOp, record: u64, threads: u32, depth: u32, runtime: f64) -> Workload {
    Workload::Random(Random { runtime: Some(Seconds(runtime)), ..base(op, record, threads, depth, false) })
}

fn base(op: RandomOp, record: u64, threads: u32, depth: u32, direct: bool) -> Random {
    Random {
        op,
        dataset: NAME.into(),
        record: Bytes(record),
        threads,
        depth,
        direct,
        operations: None,
        runtime: None,
        read_percent: 60,
    }
}

/// The operations of one kind.
pub fn of<'a>(result: &'a WorkloadResult, op: &str) -> &'a OperationResult {
    let kinds: Vec<&str> = result.operations.iter().map(|o| o.op.as_str()).collect();
    result.operations.iter().find(|o| o.op == op).unwrap_or_else(|| panic!("no {op} among {kinds:?}"))
}
