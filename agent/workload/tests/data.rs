//! Sequential and random I/O.

mod support;

use std::path::Path;

use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{RandomOp, StreamOp, TreeOp, WorkloadResult};
use support::{NAME, Place, SEED, of, random, random_for, stream, tree};

const MIB: u64 = 1 << 20;

/// Folders of the file systems that are at hand: the temporary folder's, and memory.
fn parents() -> Vec<&'static Path> {
    let memory = Path::new("/dev/shm");
    let mut parents = vec![Path::new("/tmp")];
    if memory.is_dir() {
        parents.push(memory);
    } else {
        eprintln!("skipped: no tmpfs at /dev/shm");
    }
    parents
}

fn engine(result: &WorkloadResult) -> String {
    result.engine.join("; ")
}

#[test]
fn a_stream_writes_rewrites_and_reads_every_byte() {
    // Sizes that are and are not multiples of the record, and a record beyond the file.
    for (files, size, record, threads) in
        [(1, MIB, 65_536, 1), (3, 700_001, 65_536, 2), (4, 1000, MIB, 3), (2, 5000, 7, 2)]
    {
        for parent in parents() {
            let place = Place::within(parent, files, size, 2);
            let calls = files * size.div_ceil(record);

            let made = place.done(stream(StreamOp::Write, record, threads, false));
            assert_eq!((of(&made, "write").count, of(&made, "write").bytes), (calls, Bytes(files * size)));
            assert_eq!(made.claim.written, Bytes(files * size));
            assert_eq!(made.claim.inodes, (files + files.div_ceil(2) + 1) as i64);
            assert!(made.sync.0 > 0.0);
            place.verify();

            std::fs::write(place.file(0), vec![0; size as usize]).expect("spoil a file");
            assert!(fsdyno_workload::verify(place.root(), NAME, &place.dataset, SEED).is_err());
            let again = place.done(stream(StreamOp::Rewrite, record, threads, false));
            assert_eq!((of(&again, "write").count, again.claim.inodes), (calls, 0));
            place.verify();

            let read = place.done(stream(StreamOp::Read, record, threads, false));
            assert_eq!((of(&read, "read").count, of(&read, "read").bytes), (calls, Bytes(files * size)));
            assert_eq!(
                (read.claim.read, read.claim.written, read.sync.0),
                (Bytes(files * size), Bytes(0), 0.0)
            );
            assert_eq!(place.progress.share(), Some(1.0));
            place.done(tree(TreeOp::Delete, 1));
        }
    }
}

#[test]
fn direct_io_does_the_same_or_says_that_it_cannot() {
    for parent in parents() {
        let place = Place::within(parent, 2, MIB, 10);
        match place.run(stream(StreamOp::Write, 65_536, 2, true)) {
            Ok(made) => {
                assert!(made.claim.direct && engine(&made).contains("O_DIRECT"));
                place.verify();
                place.done(stream(StreamOp::Rewrite, 4096, 1, true));
                place.verify();
                assert!(place.done(stream(StreamOp::Read, 131_072, 1, true)).claim.direct);
                let read = place.done(random(RandomOp::Read, 4096, 2, 1, true, 200));
                assert_eq!(read.claim.read, Bytes(200 * 4096));
                let mixed = place.done(random(RandomOp::Mix, 4096, 2, 8, true, 500));
                assert_eq!(mixed.claim.read.0 + mixed.claim.written.0, 500 * 4096);
                place.verify();
            }
            Err(failure) => {
                assert_eq!(failure.outcome, Outcome::Unsupported, "{failure:?}");
                assert!(failure.reason.advice.is_some_and(|a| a.contains("direct = false")));
            }
        }
    }
}

#[test]
fn random_operations_are_as_many_as_asked_for_whatever_threads_and_depth() {
    for parent in parents() {
        let place = Place::within(parent, 3, MIB, 10);
        place.done(stream(StreamOp::Write, MIB, 1, false));
        for (threads, depth, operations) in
            [(1, 1, 1), (3, 1, 1000), (2, 2, 777), (2, 32, 1000), (1, 256, 100), (2, 64, 3)]
        {
            for op in [RandomOp::Read, RandomOp::Write, RandomOp::Mix] {
                let done = place.done(random(op, 4096, threads, depth, false, operations));
                let count: u64 = done.operations.iter().map(|o| o.latency.count).sum();
                assert_eq!(count, operations);
                assert_eq!(done.series.operations.iter().sum::<u64>(), operations);
                assert_eq!(done.series.bytes.iter().sum::<u64>(), operations * 4096);
                assert_eq!(engine(&done).contains("io_uring"), depth > 1, "{}", engine(&done));
                assert!(done.claim.read.0 + done.claim.written.0 <= operations * 4096);
                assert_eq!(done.sync.0 > 0.0, op != RandomOp::Read);
            }
            place.verify();
        }
    }
}

#[test]
fn random_writes_restore_what_was_spoiled_where_they_wrote() {
    for depth in [1, 16] {
        let place = Place::new(2, 64 << 10, 10);
        place.done(stream(StreamOp::Write, MIB, 1, false));
        for file in 0..2 {
            std::fs::write(place.file(file), vec![0; 64 << 10]).expect("spoil a file");
        }
        // 32 records; 2,000 draws miss one of them with a probability below 10^-26.
        let done = place.done(random(RandomOp::Write, 4096, 2, depth, false, 2000));
        assert_eq!(done.claim.written, Bytes(2 * (64 << 10)));
        place.verify();
    }
}

#[test]
fn a_mix_has_the_share_of_reads_that_was_asked_for_and_tells_both_apart() {
    let place = Place::new(1, MIB, 10);
    place.done(stream(StreamOp::Write, MIB, 1, false));
    for depth in [1, 8] {
        let done = place.done(random(RandomOp::Mix, 512, 2, depth, false, 20_000));
        // 60 % with a standard deviation of 0.35 %; five of them.
        let share = of(&done, "read").count as f64 / 20_000.0;
        assert!((share - 0.6).abs() < 0.0175, "{share}");
        assert_eq!(of(&done, "write").count, 20_000 - of(&done, "read").count);
    }
}

#[test]
fn a_load_for_a_time_ends_after_it() {
    let place = Place::new(1, MIB, 10);
    place.done(stream(StreamOp::Write, MIB, 1, false));
    for depth in [1, 4] {
        let done = place.done(random_for(RandomOp::Read, 4096, 2, depth, 0.3));
        assert!(done.elapsed.0 >= 0.3, "{}", done.elapsed.0);
        assert!(done.series.operations.len() >= 2);
        assert!(done.tool_cost.share > 0.0 && done.tool_cost.share < 1.0);
    }
}

#[test]
fn the_same_seed_is_the_same_work() {
    let place = Place::new(4, MIB, 10);
    place.done(stream(StreamOp::Write, MIB, 1, false));
    let claim =
        |seed| place.run_seeded(random(RandomOp::Read, 4096, 2, 1, false, 300), seed).map(|r| r.claim.read);
    assert_eq!(claim(1), claim(1));
    assert_eq!(
        claim(1),
        place.run_seeded(random(RandomOp::Read, 4096, 2, 8, false, 300), 1).map(|r| r.claim.read)
    );
    let claims: std::collections::HashSet<u64> = (0..8).map(|s| claim(s).expect("runs").0).collect();
    assert!(claims.len() > 1, "{claims:?}");
}

#[test]
fn a_dataset_of_another_size_is_not_taken_for_this_one() {
    let place = Place::new(2, 100_000, 10);
    let loads = || {
        [
            stream(StreamOp::Read, 4096, 1, false),
            stream(StreamOp::Rewrite, 4096, 2, false),
            random(RandomOp::Read, 4096, 1, 1, false, 10),
            random(RandomOp::Write, 4096, 1, 4, false, 10),
        ]
    };
    for load in loads() {
        let failure = place.fails(load);
        assert_eq!(failure.outcome, Outcome::Failed);
        assert!(failure.reason.message.contains("has not been created by an earlier phase"), "{failure:?}");
    }
    place.done(stream(StreamOp::Write, 4096, 1, false));
    std::fs::write(place.file(0), "short").expect("cut a file");
    for load in loads() {
        assert!(place.fails(load).reason.message.contains("holds 5 bytes where it says 100000"));
    }
}

#[test]
fn what_was_written_is_on_the_device_when_the_load_returns() {
    use fsdyno_probe::counters::{Snapshot, backing_disk};
    let place = Place::new(4, 16 * MIB, 10);
    let Some(disk) = backing_disk(place.root()) else {
        eprintln!("skipped: no single disk lies under {}", place.root().display());
        return;
    };
    let disk = [disk];
    for load in [
        stream(StreamOp::Write, MIB, 2, false),
        stream(StreamOp::Rewrite, MIB, 2, false),
        random(RandomOp::Write, 65_536, 2, 1, false, 2000),
    ] {
        let before = Snapshot::take(&disk, &[], &[]);
        let done = place.done(load);
        let written = before.until(&Snapshot::take(&disk, &[], &[])).leaves[0].write_bytes;
        assert!(done.claim.written.0 > 48 * MIB);
        assert!(written >= done.claim.written, "{written} of {}", done.claim.written);
    }
}

#[test]
fn forgetting_needs_the_files_and_leaves_them_as_they_are() {
    let place = Place::new(3, 10_000, 10);
    assert!(fsdyno_workload::forget(place.root(), NAME, &place.dataset).is_err());
    place.done(stream(StreamOp::Write, 4096, 1, false));
    fsdyno_workload::forget(place.root(), NAME, &place.dataset).expect("forget");
    place.verify();
}
