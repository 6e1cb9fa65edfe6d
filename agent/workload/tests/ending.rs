//! How workloads end when they do not end well.

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::workload::{RandomOp, StreamOp, TreeOp};
use support::{Place, random, random_for, stream, tree};

const MIB: u64 = 1 << 20;

#[test]
fn told_to_stop_a_load_stops_long_before_its_end() {
    let place = Place::new(2, MIB, 1);
    place.done(stream(StreamOp::Write, MIB, 1, false));
    for depth in [1, 16] {
        let failure = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                place.stop.store(true, Ordering::Relaxed);
            });
            // An hour, were it not stopped.
            place.fails(random_for(RandomOp::Read, 4096, 2, depth, 3600.0))
        });
        assert_eq!(failure.outcome, Outcome::Cancelled);
        let share = place.progress.share().expect("it had begun");
        assert!(share < 0.1, "{share}");
        place.stop.store(false, Ordering::Relaxed);
    }
}

#[test]
fn told_to_stop_before_it_began_a_load_does_nothing() {
    let place = Place::new(10, 100, 5);
    place.done(tree(TreeOp::Create, 2));
    place.stop.store(true, Ordering::Relaxed);
    for load in [
        tree(TreeOp::Delete, 2),
        stream(StreamOp::Rewrite, 10, 2, false),
        random(RandomOp::Write, 10, 2, 1, false, 100),
    ] {
        assert_eq!(place.fails(load).outcome, Outcome::Cancelled);
    }
    place.verify();
}

#[test]
fn a_file_that_became_shorter_ends_a_load_that_is_under_way() {
    for depth in [1, 8] {
        let place = Place::new(1, MIB, 1);
        place.done(stream(StreamOp::Write, MIB, 1, false));
        let failure = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                let file = std::fs::File::options().write(true).open(place.file(0)).expect("the file");
                file.set_len(MIB / 2 + 100).expect("cut it");
            });
            place.fails(random_for(RandomOp::Read, 4096, 2, depth, 3600.0))
        });
        assert_eq!(failure.outcome, Outcome::Failed);
        assert!(failure.reason.message.starts_with("short read of"), "{failure:?}");
    }
}

#[test]
fn a_failure_of_one_thread_ends_the_others_and_is_the_one_reported() {
    let place = Place::new(2000, 0, 1000);
    place.done(tree(TreeOp::Create, 2));
    std::fs::remove_file(place.file(1000)).expect("lose the second thread's first file");
    let failure = place.fails(tree(TreeOp::Stat, 2));
    assert_eq!(failure.outcome, Outcome::Failed);
    assert!(failure.reason.message.contains("f00001000 is not there"), "{failure:?}");
}

#[test]
fn workers_leave_no_descriptor_and_no_thread_behind() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).expect("proc").count();
    let place = Place::new(20, 5000, 5);
    place.done(tree(TreeOp::Create, 2));
    let held = || {
        let of_ours = |entry: &std::fs::DirEntry| {
            std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(place.root()))
        };
        std::fs::read_dir("/proc/self/fd").expect("proc").flatten().filter(of_ours).count()
    };
    for load in [
        tree(TreeOp::Read, 4),
        random(RandomOp::Mix, 512, 3, 1, false, 50),
        random(RandomOp::Mix, 512, 3, 8, false, 50),
    ] {
        let done = place.done(load);
        assert_eq!(held(), 0);
        // Linux 5.9 and later.
        assert!(done.engine.contains(&"own descriptor tables".to_string()), "{:?}", done.engine);
    }
    assert!(count("task") < 50);
}

/// A file system of 16 MiB in a mount namespace of this test's own thread.
fn small_tmpfs(options: &str, test: impl FnOnce(&std::path::Path) + Send) {
    use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: only this thread's view of mounts is changed; no descriptor depends on it.
            let own = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
            if own.is_err() {
                eprintln!("skipped: mounting needs root");
                return;
            }
            mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
                .expect("private mounts");
            let point = tempfile::tempdir().expect("a mount point");
            let data = std::ffi::CString::new(options).expect("options");
            mount("fsdyno-test", point.path(), "tmpfs", MountFlags::empty(), Some(data.as_c_str()))
                .expect("tmpfs");
            test(point.path());
            // At once: nothing of a finished load may keep it busy.
            unmount(point.path(), UnmountFlags::empty()).expect("nothing keeps it busy");
        });
    });
}

#[test]
fn a_full_device_is_told_with_the_file_and_the_remedy() {
    small_tmpfs("size=16m", |point| {
        let place = Place::within(point, 8, 4 * MIB, 4);
        let failure = place.fails(stream(StreamOp::Write, 100_000, 2, false));
        assert_eq!(failure.outcome, Outcome::Failed);
        assert!(failure.reason.message.contains("No space left on device (ENOSPC)"), "{failure:?}");
        assert!(failure.reason.message.contains("/set/d0000"), "{failure:?}");
        assert!(failure.reason.advice.is_some_and(|a| a.contains("larger device")));
    });
}

#[test]
fn running_out_of_inodes_is_told_too() {
    small_tmpfs("size=16m,nr_inodes=100", |point| {
        let place = Place::within(point, 500, 0, 100);
        let failure = place.fails(tree(TreeOp::Create, 2));
        assert!(failure.reason.message.contains("ENOSPC"), "{failure:?}");
        assert!(failure.reason.advice.is_some_and(|a| a.contains("inodes")));
    });
}

#[test]
fn a_finished_load_does_not_keep_its_mount_busy() {
    for depth in [1, 32] {
        small_tmpfs("size=16m", |point| {
            let place = Place::within(point, 3, MIB, 10);
            place.done(stream(StreamOp::Write, MIB, 2, false));
            place.done(random(RandomOp::Mix, 4096, 3, depth, false, 300));
        });
    }
}
