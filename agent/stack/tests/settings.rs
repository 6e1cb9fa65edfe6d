//! Kernel settings at their layers, the host's dirty limits included: taken, proved, and gone afterwards,
//! also after kill -9.

mod common;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{options, quiet, rig, stack};
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::{Backing, Settings, WriteCache};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::Rig;
use serde_json::json;

const SIZE: Bytes = Bytes::mib(16);
/// Values that nobody has by chance, small enough for any machine and large enough to disturb nobody.
const DIRTY: Bytes = Bytes(512 * 1_048_576 + 4096);
const BACKGROUND: Bytes = Bytes(256 * 1_048_576 + 4096);

/// The limits are the host's: one test at a time changes them, in whatever process.
fn host_alone() -> File {
    let lock = File::create(std::env::temp_dir().join("fsdyno-test-dirty.lock")).unwrap();
    rustix::fs::flock(lock.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}

/// The four files of the two limits, as they are.
fn limits() -> Vec<String> {
    let names = ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"];
    let read = |name: &&str| fs::read_to_string(Path::new("/proc/sys/vm").join(name)).unwrap();
    names.iter().map(|name| read(name).trim().to_string()).collect()
}

fn pages(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

fn both() -> Settings {
    Settings { dirty_bytes: Some(DIRTY), dirty_background_bytes: Some(BACKGROUND), ..Settings::default() }
}

fn queue(name: &str, attribute: &str) -> String {
    fs::read_to_string(format!("/sys/block/{name}/queue/{attribute}")).unwrap().trim().to_string()
}

#[test]
fn a_scheduler_brings_its_own_number_of_requests_unless_one_was_asked_for() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut spec = stack(SIZE, Backing::Sparse);
    spec.settings =
        Settings { scheduler: Some("mq-deadline".into()), nr_requests: Some(64), ..Settings::default() };
    let mut trial = rig.begin("a", &spec).unwrap();
    let facts = trial.build(true, SIZE, &mut quiet()).unwrap().pop().unwrap().facts;
    assert_eq!((&facts["scheduler"], &facts["nr_requests"]), (&json!("mq-deadline"), &json!(64)));
    let name = trial.leaves()[0].clone();
    assert_eq!(queue(&name, "nr_requests"), "64");
    // The next scheduler would bring 128 or more.
    let other = Settings { scheduler: Some("none".into()), ..Settings::default() };
    assert_eq!(trial.set(&other).unwrap()["nr_requests"], json!(64));
    assert_eq!(queue(&name, "nr_requests"), "64");
    let too_many = Settings { nr_requests: Some(1_000_000), ..Settings::default() };
    let failure = trial.set(&too_many).unwrap_err();
    assert!(failure.reason.message.contains("1000000"), "{failure}");
    assert!(failure.reason.advice.unwrap().contains("`none`"));
    assert!(trial.teardown().is_empty());

    let mut trial = rig.begin("b", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, SIZE, &mut quiet()).unwrap();
    assert_eq!(queue(&trial.leaves()[0], "nr_requests"), "128", "the next trial meets the default");
    assert!(trial.teardown().is_empty());
}

#[test]
fn a_setting_that_somebody_else_changes_is_noticed_before_the_next_phase() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut spec = stack(SIZE, Backing::Sparse);
    spec.settings.write_cache = Some(WriteCache::WriteThrough);
    let mut trial = rig.begin("a", &spec).unwrap();
    trial.build(true, SIZE, &mut quiet()).unwrap();
    trial.assert_settings().unwrap();
    let name = trial.leaves()[0].clone();
    fs::write(format!("/sys/block/{name}/queue/write_cache"), "write back").unwrap();
    let failure = trial.assert_settings().unwrap_err();
    assert_eq!(failure.outcome, Outcome::Failed);
    assert!(
        failure.reason.message.contains("write_cache") && failure.reason.message.contains("write through")
    );
    trial.set(&spec.settings).unwrap();
    trial.assert_settings().unwrap();
    assert!(trial.teardown().is_empty());
}

#[test]
fn dirty_limits_are_what_the_kernel_works_with_and_end_with_the_trial() {
    needs_root!();
    let _alone = host_alone();
    let found = limits();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut spec = stack(SIZE, Backing::Sparse);
    spec.settings = both();
    let mut trial = rig.begin("a", &spec).unwrap();
    let facts = trial.build(true, SIZE, &mut quiet()).unwrap().pop().unwrap().facts;
    assert_eq!(
        (&facts["dirty_bytes"], &facts["dirty_background_bytes"]),
        (&json!(DIRTY), &json!(BACKGROUND))
    );
    assert_eq!(facts["dirty_threshold_pages"], json!(DIRTY.0 / 4096));
    assert_eq!(pages("nr_dirty_background_threshold"), BACKGROUND.0 / 4096);
    // A set phase changes one of them again; the other stays.
    let less = Settings { dirty_background_bytes: Some(Bytes::mib(64)), ..Settings::default() };
    trial.set(&less).unwrap();
    assert_eq!(pages("nr_dirty_background_threshold"), 64 << 8);
    assert_eq!(pages("nr_dirty_threshold"), DIRTY.0 / 4096);
    assert!(trial.teardown().is_empty());
    assert_eq!(limits(), found);
}

#[test]
fn limits_that_the_kernel_would_change_silently_are_refused_and_put_back() {
    needs_root!();
    let _alone = host_alone();
    let found = limits();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, SIZE, &mut quiet()).unwrap();
    let swapped = Settings {
        dirty_bytes: Some(BACKGROUND),
        dirty_background_bytes: Some(DIRTY),
        ..Settings::default()
    };
    let failure = trial.set(&swapped).unwrap_err();
    assert!(failure.reason.advice.as_ref().unwrap().contains("below `dirty_bytes`"), "{failure}");
    let tiny = Settings { dirty_bytes: Some(Bytes(1)), ..Settings::default() };
    assert!(trial.set(&tiny).is_err());
    assert!(trial.teardown().is_empty());
    assert_eq!(limits(), found);
}

#[test]
fn a_limit_that_somebody_else_changed_meanwhile_stays_as_it_is() {
    needs_root!();
    let _alone = host_alone();
    let found = limits();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, SIZE, &mut quiet()).unwrap();
    trial.set(&both()).unwrap();
    fs::write("/proc/sys/vm/dirty_bytes", "700000000").unwrap();
    assert!(trial.teardown().is_empty());
    let after = limits();
    let (file, old) = if found[0] == "0" { ("dirty_ratio", &found[1]) } else { ("dirty_bytes", &found[0]) };
    fs::write(Path::new("/proc/sys/vm").join(file), old).unwrap();
    assert_eq!(after[0], "700000000");
    assert_eq!(after[2..], found[2..], "the other limit was still ours");
    assert_eq!(limits(), found);
}

/// Sets the limits and waits to be killed.
#[test]
fn limits_victim() {
    let Some(folder) = std::env::var_os("FSDYNO_LIMITS_VICTIM") else { return };
    let mut rig = rig(Path::new(&folder));
    let mut spec = stack(SIZE, Backing::Sparse);
    spec.settings = both();
    let mut trial = rig.begin("a", &spec).unwrap();
    trial.build(true, SIZE, &mut quiet()).unwrap();
    println!("the limits are set");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn limits_of_a_killed_agent_are_put_back_by_the_next_one() {
    needs_root!();
    let _alone = host_alone();
    let found = limits();
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "limits_victim", "--nocapture"])
        .env("FSDYNO_LIMITS_VICTIM", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("the limits are set")));
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(limits()[0], DIRTY.0.to_string(), "a killed agent puts nothing back");
    let next = Rig::open(options(folder.path())).unwrap();
    assert_eq!(limits(), found);
    let undone = &next.cleaned().undone;
    assert!(undone.iter().any(|what| what.contains("vm.dirty_bytes")), "{undone:?}");
}
