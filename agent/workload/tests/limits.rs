//! What can be asked for. Each row is a workload that cannot run, and what its refusal must say.

mod support;

use fsdyno_spec::units::{Bytes, Seconds};
use fsdyno_spec::workload::{Dataset, Random, RandomOp, StreamOp, TreeOp, Workload};
use fsdyno_workload::validate;
use support::{random, random_for, stream, tree};

fn dataset(files: u64, size: u64, files_per_directory: u64) -> Dataset {
    Dataset { files, size: Bytes(size), files_per_directory }
}

fn with(change: impl FnOnce(&mut Random)) -> Workload {
    let mut load = random(RandomOp::Read, 4096, 1, 1, false, 10);
    if let Workload::Random(inner) = &mut load {
        change(inner);
    }
    load
}

#[test]
fn what_cannot_be_is_refused_with_advice() {
    let read = |record, threads, direct| stream(StreamOp::Read, record, threads, direct);
    let good = dataset(10, 1 << 20, 10);
    let rows = [
        (tree(TreeOp::Stat, 1), dataset(0, 0, 1), "no files"),
        (tree(TreeOp::Stat, 1), dataset(1, 0, 0), "no files in a directory"),
        (tree(TreeOp::Stat, 1), dataset(100_000_001, 0, 1000), "names are made for 100000000"),
        (tree(TreeOp::Stat, 1), dataset(100_001, 0, 1), "names are made for 100000"),
        (tree(TreeOp::Stat, 1), dataset(1 << 20, 1 << 50, 1 << 20), "larger than any device"),
        (tree(TreeOp::Stat, 0), good.clone(), "no threads"),
        (tree(TreeOp::Stat, 2), good.clone(), "2 threads are more than the dataset's 1 directories"),
        (read(0, 1, false), good.clone(), "a record of 0 B"),
        (read(2 << 30, 1, false), good.clone(), "a record of 2 GiB"),
        (read(4096, 11, false), good.clone(), "11 threads are more than the dataset's 10 files"),
        (read(1000, 1, true), good.clone(), "direct I/O with records of 1000 B"),
        (read(4096, 1, true), dataset(1, 1000, 1), "on files of 1000 B"),
        (read(4096, 1, false), dataset(1, 0, 1), "empty"),
        (with(|r| r.record = Bytes(2 << 20)), good.clone(), "does not fit"),
        (with(|r| r.depth = 0), good.clone(), "a depth of 0"),
        (with(|r| r.depth = 5000), good.clone(), "a depth of 5000"),
        (with(|r| r.operations = None), good.clone(), "after a number of operations or after a time"),
        (
            with(|r| r.runtime = Some(Seconds(1.0))),
            good.clone(),
            "after a number of operations or after a time",
        ),
        (with(|r| r.threads = 11), good.clone(), "10 operations are not one for each of 11 threads"),
        (with(|r| r.read_percent = 101), good.clone(), "101 %"),
        (random_for(RandomOp::Read, 4096, 1, 1, 0.0), good.clone(), "no time"),
    ];
    for (load, dataset, expected) in rows {
        let reason = validate(&load, &dataset).expect_err(expected);
        assert!(reason.message.contains(expected), "{reason:?}");
        assert!(reason.advice.is_some_and(|a| !a.is_empty()), "{}", reason.message);
    }
}

#[test]
fn what_can_be_is_not_refused() {
    let good = dataset(10, 1 << 20, 5);
    for load in [
        tree(TreeOp::Create, 2),
        stream(StreamOp::Write, 1, 10, false),
        stream(StreamOp::Write, 512, 1, true),
        random(RandomOp::Mix, 1 << 20, 64, 4096, true, 64),
        random_for(RandomOp::Read, 1000, 1, 1, 0.001),
    ] {
        assert_eq!(validate(&load, &good), Ok(()));
    }
}
