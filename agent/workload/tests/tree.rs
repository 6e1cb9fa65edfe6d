//! Many small files.

mod support;

use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::units::Bytes;
use fsdyno_spec::workload::{Order, SyncPolicy, Tree, TreeOp, Workload};
use support::{NAME, Place, of, tree};

fn ordered(op: TreeOp, order: Order, sync: SyncPolicy) -> Workload {
    Workload::Tree(Tree { op, dataset: NAME.into(), threads: 2, order, sync })
}

#[test]
fn a_tree_lives_from_create_to_delete() {
    for (files, size, per_directory, threads) in
        [(1, 0, 1, 1), (50, 1, 10, 2), (25, 5000, 10, 3), (3, 1_100_000, 2, 1)]
    {
        let place = Place::new(files, size, per_directory);
        let directories = files.div_ceil(per_directory);
        let inodes = (files + directories + 1) as i64;

        let made = place.done(tree(TreeOp::Create, threads));
        assert_eq!(of(&made, "create").count, files);
        assert_eq!(of(&made, "create").bytes, Bytes(files * size));
        assert_eq!(of(&made, "create").latency.count, files);
        assert_eq!(of(&made, "mkdir").count, directories);
        assert_eq!((made.claim.written, made.claim.inodes), (Bytes(files * size), inodes));
        assert_eq!(made.series.operations.iter().sum::<u64>(), files + directories);
        assert!(made.elapsed.0 > 0.0 && made.sync.0 > 0.0);
        place.verify();

        let seen = place.done(tree(TreeOp::Stat, threads));
        assert_eq!((of(&seen, "stat").count, seen.claim.inodes, seen.sync.0), (files, 0, 0.0));

        let read = place.done(tree(TreeOp::Read, threads));
        assert_eq!((of(&read, "read").count, read.claim.read), (files, Bytes(files * size)));

        let gone = place.done(tree(TreeOp::Delete, threads));
        assert_eq!((of(&gone, "delete").count, of(&gone, "rmdir").count), (files, directories));
        assert_eq!(gone.claim.inodes, -inodes);
        assert!(!place.root().join(NAME).exists());
        assert_eq!(place.progress.share(), Some(1.0));
    }
}

#[test]
fn a_random_order_visits_every_file_once() {
    let place = Place::new(500, 700, 100);
    let made = place.done(ordered(TreeOp::Create, Order::Random, SyncPolicy::End));
    assert_eq!(of(&made, "create").count, 500);
    place.verify();
    assert_eq!(of(&place.done(ordered(TreeOp::Read, Order::Random, SyncPolicy::End)), "read").count, 500);
    place.done(ordered(TreeOp::Delete, Order::Random, SyncPolicy::End));
    assert!(!place.root().join(NAME).exists());
}

#[test]
fn fsyncs_are_counted_apart_from_the_creates_that_they_belong_to() {
    let place = Place::new(40, 3000, 20);
    let made = place.done(ordered(TreeOp::Create, Order::Sequential, SyncPolicy::File));
    assert_eq!((of(&made, "create").count, of(&made, "fsync").count), (40, 40));
    assert_eq!(of(&made, "create").bytes, Bytes(40 * 3000));
    place.verify();
}

#[test]
fn each_thread_has_its_own_directories() {
    let place = Place::new(30, 0, 10);
    let failure = place.fails(tree(TreeOp::Create, 4));
    assert_eq!(failure.outcome, Outcome::Failed);
    assert!(failure.reason.message.contains("4 threads are more than the dataset's 3 directories"));
    assert!(failure.reason.advice.is_some_and(|a| a.contains("`files_per_directory` to 7 at most")));
    assert!(!place.root().join(NAME).exists());
}

#[test]
fn what_no_phase_has_created_cannot_be_used() {
    for op in [TreeOp::Stat, TreeOp::Read, TreeOp::Delete] {
        let failure = Place::new(3, 0, 10).fails(tree(op, 1));
        assert!(
            failure.reason.message.contains("`set` has not been created by an earlier phase"),
            "{failure:?}"
        );
    }
}

#[test]
fn a_lost_or_changed_file_is_an_error_that_names_it() {
    let place = Place::new(30, 100, 10);
    place.done(tree(TreeOp::Create, 2));
    for content in [vec![0u8; 99], vec![0u8; 101]] {
        std::fs::write(place.file(17), content).expect("change a file");
        for op in [TreeOp::Stat, TreeOp::Read] {
            let failure = place.fails(tree(op, 2));
            assert!(failure.reason.message.contains("d00001/f00000017"), "{failure:?}");
        }
    }
    std::fs::remove_file(place.file(17)).expect("lose a file");
    for op in [TreeOp::Stat, TreeOp::Read, TreeOp::Delete] {
        let failure = place.fails(tree(op, 2));
        assert!(failure.reason.message.contains("f00000017 is not there"), "{failure:?}");
    }
}

#[test]
fn creating_twice_is_refused() {
    let place = Place::new(3, 0, 10);
    place.done(tree(TreeOp::Create, 1));
    let failure = place.fails(tree(TreeOp::Create, 1));
    assert!(failure.reason.message.contains("exists already"), "{failure:?}");
}
