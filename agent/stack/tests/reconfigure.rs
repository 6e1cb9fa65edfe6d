//! Telling a mounted file system something new: what the kernel takes is shown, what it takes and ignores
//! is told as such.

mod common;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use common::{line, plan, quiet, rig, stack};
use fsdyno_spec::trial::Backing;
use fsdyno_spec::units::Bytes;
use fsdyno_stack::TrialStack;

const SIZE: Bytes = Bytes::mib(320);

fn param(key: &str, value: &str) -> Vec<(String, Option<String>)> {
    vec![(key.to_string(), Some(value.to_string()))]
}

/// A mounted file system.
fn mounted(trial: &mut TrialStack<'_>, mkfs: &str, fstype: &str) {
    trial.build(true, SIZE, &mut quiet()).unwrap();
    let device = trial.device().unwrap().path.clone();
    let made = trial.tool(&line(mkfs, &["-q", &device.to_string_lossy()]), &AtomicBool::new(false), None);
    assert_eq!(made.unwrap().exit, Some(0));
    trial.mount(&plan(fstype, Path::new(&device))).unwrap();
}

#[test]
fn a_stripe_that_a_mounted_file_system_is_told_is_shown_and_one_that_it_ignores_is_a_failure() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SIZE, Backing::Sparse)).unwrap();
    mounted(&mut trial, "mkfs.ext4", "ext4");
    let facts = trial.reconfigure(&param("stripe", "48")).unwrap();
    assert!(facts["super_options"].as_str().unwrap().contains("stripe=48"));
    let failure = trial.reconfigure(&param("nonsense", "1")).unwrap_err();
    assert!(failure.reason.message.contains("refuses `remount,nonsense=1`"), "{failure}");
    trial.unmount().unwrap();
    assert!(
        trial.reconfigure(&param("stripe", "48")).unwrap_err().reason.message.contains("nothing is mounted")
    );
    assert!(trial.teardown().is_empty());

    let mut trial = rig.begin("b", &stack(SIZE, Backing::Sparse)).unwrap();
    mounted(&mut trial, "mkfs.xfs", "xfs");
    let failure = trial.reconfigure(&[param("sunit", "128"), param("swidth", "384")].concat()).unwrap_err();
    assert!(failure.reason.message.contains("ignored it"), "{failure}");
    assert!(trial.teardown().is_empty());
}
