//! Leaves by the dozen, and what machines are given: what is refused, what is the same each time, and
//! what stays behind (nothing).

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{device, leftovers, options, quiet, rig};
use fsdyno_spec::array::Lvm;
use fsdyno_spec::event::Refusal;
use fsdyno_spec::trial::{Backing, Device, DiskDevice, FileDevice, Stack};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Rig, RigOptions, clean};

const SIZE: Bytes = Bytes::mib(16);

fn several(count: u32) -> FileDevice {
    FileDevice { count, ..device(SIZE, Backing::Sparse) }
}

#[test]
fn several_devices_and_nothing_that_joins_them_are_refused() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let listed = vec![Device::File(several(1)), Device::File(several(1))];
    for devices in [vec![Device::File(several(3))], listed] {
        let spec = Stack { devices, ..Stack::default() };
        let mut trial = rig.begin("a", &spec).unwrap();
        let refused = trial.build(true, SIZE, &mut quiet()).unwrap_err();
        assert_eq!(refused.refusal, Refusal::BadRequest);
        assert!(refused.reason.advice.unwrap().contains("stack.array"));
        assert!(trial.leaves().is_empty(), "nothing is made before it is refused");
        assert!(trial.teardown().is_empty());
    }
}

#[test]
fn a_machine_that_was_given_no_disk_says_so_and_a_real_disk_is_not_for_it() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(RigOptions { attached: true, ..options(folder.path()) }).unwrap();
    let mut build = |device: Device| {
        let spec = Stack { devices: vec![device], ..Stack::default() };
        let mut trial = rig.begin("a", &spec).unwrap();
        let refused = trial.build(true, SIZE, &mut quiet()).unwrap_err();
        assert!(trial.teardown().is_empty());
        refused
    };
    let refused = build(Device::File(several(1)));
    assert_eq!(refused.refusal, Refusal::Environment);
    assert!(refused.reason.message.contains("given no"), "{refused}");
    let disk = DiskDevice { path: "/dev/disk/by-id/x".into() };
    let refused = build(Device::Disk(disk));
    assert_eq!(refused.refusal, Refusal::BadRequest);
    assert!(refused.reason.advice.unwrap().contains("`machine`"));
}

#[test]
fn images_need_no_root_have_no_name_and_serve_again_in_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let written = device(Bytes::mib(4), Backing::Written);
    let images: Vec<_> = (0..3).map(|_| rig.image(&written, &mut quiet()).unwrap()).collect();
    let inode = |image: &fsdyno_stack::Image| image.file().metadata().unwrap().ino();
    let first: Vec<u64> = images.iter().map(inode).collect();
    for image in &images {
        assert_eq!((image.size(), image.backing(), image.reused()), (Bytes::mib(4), Backing::Written, false));
        let meta = image.file().metadata().unwrap();
        assert_eq!((meta.len(), meta.nlink()), (4 << 20, 0));
        assert!(meta.blocks() * 512 >= 4 << 20);
    }
    // Whatever order they come back in.
    images.into_iter().rev().for_each(|image| rig.give_image(image));
    let again: Vec<_> = (0..3).map(|_| rig.image(&written, &mut quiet()).unwrap()).collect();
    assert_eq!(again.iter().map(inode).collect::<Vec<_>>(), first);
    assert!(again.iter().all(fsdyno_stack::Image::reused));
    let sparse = device(Bytes(1 << 40), Backing::Sparse);
    let image = rig.image(&sparse, &mut quiet()).unwrap();
    image.file().metadata().unwrap();
    assert_eq!(image.file().metadata().unwrap().len(), 1 << 40);
    rig.give_image(image);
    assert!(leftovers(folder.path()).iter().all(|path| path.extension().is_some_and(|e| e == "jsonl")));
    let odd = FileDevice { size: Bytes(4097), ..sparse };
    assert_eq!(rig.image(&odd, &mut quiet()).unwrap_err().refusal, Refusal::BadRequest);
    drop((again, rig));
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn an_image_that_takes_direct_io_is_open_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let image = rig.image(&device(SIZE, Backing::Sparse), &mut quiet()).unwrap();
    let flags = rustix::fs::fcntl_getfl(image.file()).unwrap();
    assert_eq!(flags.contains(rustix::fs::OFlags::DIRECT), image.direct());
}

#[test]
fn a_child_that_outlives_its_agent_is_ended_by_the_next_clean_and_no_other_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let sleeper = || Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let (mut ours, mut theirs) = (sleeper(), sleeper());
    rig.note_process(ours.id()).unwrap();
    assert!(rig.note_process(u32::MAX >> 2).is_err(), "a process that is not there is not recorded");
    // As a killed agent leaves it: its ledger, and nobody who holds it.
    let dead = folder.path().join("dead");
    fs::create_dir_all(dead.join("ledger")).unwrap();
    for entry in fs::read_dir(folder.path().join("state/ledger")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dead.join("ledger").join(entry.file_name())).unwrap();
    }
    let cleaned = clean(&dead);
    assert_eq!((cleaned.undone.len(), cleaned.failed.len()), (1, 0), "{cleaned:?}");
    assert!(ours.try_wait().unwrap().is_some_and(|status| !status.success()));
    assert!(theirs.try_wait().unwrap().is_none());
    theirs.kill().unwrap();
    theirs.wait().unwrap();
}

#[test]
fn a_disk_named_twice_is_refused_before_anything_is_touched() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let disk = Device::Disk(DiskDevice { path: "/dev/disk/by-id/x".into() });
    let spec = Stack { devices: vec![disk.clone(), disk], lvm: Some(Lvm::default()), ..Stack::default() };
    let mut trial = rig.begin("a", &spec).unwrap();
    let refused = trial.build(true, SIZE, &mut quiet()).unwrap_err();
    assert!(refused.reason.message.contains("twice"), "{refused}");
    assert!(trial.teardown().is_empty());
}
