//! What lives beside a mount, on real loop devices: a FUSE driver that serves it, a daemon that works
//! on it. Both end with the mount, and what they hold is free afterwards.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::{bound_below, leftovers, line, options, plan, quiet, rig, stack};
use fsdyno_filesystems::{CommandLine, Here, MountPlan, POINT, Target, find};
use fsdyno_probe::counters::{Clock, Took};
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::{Backing, Settings};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Rig, TrialStack, find_program};
use serde_json::json;

const SIZE: Bytes = Bytes::mib(64);

/// Whether NTFS by FUSE can be made and mounted here; says why not.
fn can_help() -> bool {
    let kernel = fs::read_to_string("/proc/filesystems").unwrap().contains("fuseblk");
    let tools = ["mkntfs", "ntfs-3g"].iter().all(|tool| find_program(tool).is_some());
    if !kernel || !tools || !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: FUSE on block devices: kernel {kernel}, tools {tools}, or no /dev/fuse");
        return false;
    }
    true
}

fn device(trial: &TrialStack<'_>) -> PathBuf {
    trial.device().unwrap().path.clone()
}

/// A built stack with an empty NTFS on it, and how to mount that by FUSE.
fn made<'rig>(rig: &'rig mut Rig, name: &str) -> (TrialStack<'rig>, MountPlan) {
    let ntfs = find("ntfs").unwrap();
    let mut trial = rig.begin(name, &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, Bytes::mib(2), &mut quiet()).unwrap();
    let path = device(&trial).to_string_lossy().into_owned();
    let options = ntfs
        .options(&[("driver".to_string(), json!("ntfs-3g")), ("noatime".to_string(), json!(true))].into());
    let options = options.unwrap();
    let target = Target::plain(&path, SIZE, "5eed0000-1234-4abc-8def-0123456789ab", false);
    let out = trial.tool(&ntfs.mkfs(&options, &target).unwrap(), &AtomicBool::new(false), None).unwrap();
    assert_eq!(out.exit, Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let plan = ntfs.mount(&options, &path, SIZE, &Here::default());
    (trial, plan)
}

/// Processes that have this word among their arguments.
fn processes(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    all.filter_map(|path| fs::read(path).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .filter(|line| line.split('\0').any(|argument| argument == word))
        .collect()
}

#[test]
fn a_mount_by_a_helper_is_as_any_other_and_its_end_frees_the_device() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let (mut trial, plan) = made(&mut rig, "a");
    let path = device(&trial);
    let word = path.to_string_lossy().into_owned();
    for round in 0..2 {
        let facts = trial.mount(&plan).unwrap();
        assert_eq!((&facts["fstype"], &facts["served_by"]), (&json!("fuseblk"), &json!("ntfs-3g")));
        assert!(facts["helper_version"].as_str().unwrap().contains("ntfs-3g"), "{facts:?}");
        assert!(facts["helper"].as_array().unwrap().contains(&json!(word)), "{facts:?}");
        let ntfs = find("ntfs").unwrap();
        let options = ntfs.options(&[("noatime".to_string(), json!(true))].into()).unwrap();
        let text = |key: &str| facts[key].as_str().unwrap().to_string();
        ntfs.verify_mount(&options, &text("super_options"), &text("mount_options")).unwrap();
        assert_eq!(ntfs.driver(&trial.device().unwrap().kernel_name).as_deref(), Some("ntfs-3g"));
        assert!(trial.took().wall > Duration::ZERO);
        let root = trial.data_root().unwrap().to_path_buf();
        if round == 0 {
            fs::write(root.join("x"), vec![7; 3_000_000]).unwrap();
        }
        assert_eq!(fs::read(root.join("x")).unwrap().len(), 3_000_000);
        trial.sync().unwrap();
        trial.drop_caches().unwrap();
        assert_eq!(processes(&word).len(), 1);
        trial.unmount().unwrap();
        assert_eq!(processes(&word), Vec::<String>::new());
        assert!(!root.join("x").exists());
    }
    assert_eq!(trial.teardown(), Vec::<String>::new());
    drop(rig);
    assert!(bound_below(folder.path()).is_empty() && leftovers(folder.path()).is_empty());
}

#[test]
fn a_helpers_work_is_charged_to_the_time_in_which_it_was_done_and_not_to_its_end() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let (mut trial, plan) = made(&mut rig, "a");
    let total = |took: Took| took.cpu.user.0 + took.cpu.system.0;
    trial.mount(&plan).unwrap();
    let mounting = trial.took();
    // Its keeper, and itself.
    assert_eq!(trial.beside().len(), 2);
    let root = trial.data_root().unwrap().to_path_buf();
    // Our own part is taken out by a clock that does not look beside.
    let (both, ours) = (Clock::start(&trial.beside()), Clock::start(&[]));
    for name in 0..1000 {
        fs::write(root.join(format!("file {name}")), [7; 100]).unwrap();
    }
    let ours = total(ours.took(&[]));
    let of_helper = total(both.took(&trial.beside())) - ours;
    trial.sync().unwrap();
    trial.unmount().unwrap();
    assert_eq!(trial.beside(), Vec::<u32>::new());
    let unmounting = trial.took();
    assert!(of_helper > 0.0 && total(mounting) > 0.0);
    assert!(total(unmounting) < of_helper, "{of_helper} s of work, and {unmounting:?}");
    assert_eq!(trial.teardown(), Vec::<String>::new());
}

#[test]
fn read_ahead_of_a_helpers_mount_is_that_of_fuse() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let (mut trial, plan) = made(&mut rig, "a");
    trial.mount(&plan).unwrap();
    let wanted = Settings { read_ahead: Some(Bytes::kib(64)), ..Settings::default() };
    let facts = trial.set(&wanted).unwrap();
    assert!(facts["read_ahead_layer"].as_str().unwrap().contains("-fuseblk/"), "{facts:?}");
    assert_eq!(trial.teardown(), Vec::<String>::new());
}

#[test]
fn a_helper_that_cannot_mount_is_told_with_its_words_and_leaves_nothing() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, Bytes::mib(2), &mut quiet()).unwrap();
    let path = device(&trial).to_string_lossy().into_owned();
    let plan = find("ntfs").unwrap().mount(&Default::default(), &path, SIZE, &Here::default());
    let failure = trial.mount(&plan).unwrap_err();
    assert_eq!(failure.outcome, Outcome::Failed);
    assert!(failure.reason.message.contains("NTFS signature is missing"), "{failure}");
    let helper = Some(CommandLine { program: "fsdyno-no-such".into(), args: vec![POINT.into()] });
    let failure = trial.mount(&MountPlan { helper, ..plan }).unwrap_err();
    assert_eq!(failure.outcome, Outcome::Unsupported);
    assert_eq!(processes(&path), Vec::<String>::new());
    assert!(trial.mount_point().is_none());
    assert_eq!(trial.teardown(), Vec::<String>::new());
}

#[test]
fn a_mount_whose_helper_was_killed_can_still_be_taken_down() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let (mut trial, plan) = made(&mut rig, "a");
    trial.mount(&plan).unwrap();
    let word = device(&trial).to_string_lossy().into_owned();
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let ours = all.filter(|path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|argument| argument == word)
    });
    for process in ours {
        let pid = process.file_name().unwrap().to_owned();
        assert!(Command::new("kill").arg("-9").arg(pid).status().unwrap().success());
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(fs::read_dir(trial.data_root().unwrap()).is_err(), "nobody answers");
    assert_eq!(trial.teardown(), Vec::<String>::new());
    assert!(bound_below(folder.path()).is_empty());
}

#[test]
fn a_busy_mount_of_a_helper_names_its_holder_and_keeps_the_helper() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let (mut trial, plan) = made(&mut rig, "a");
    trial.mount(&plan).unwrap();
    let file = fs::File::create(trial.data_root().unwrap().join("open")).unwrap();
    let failure = trial.unmount().unwrap_err();
    assert_eq!(failure.outcome, Outcome::TeardownFailed);
    assert!(failure.reason.message.contains(&std::process::id().to_string()), "{failure}");
    assert!(trial.data_root().unwrap().join("open").exists());
    drop(file);
    assert_eq!(trial.teardown(), Vec::<String>::new());
}

#[test]
fn a_daemon_runs_while_it_is_mounted_and_no_longer() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, Bytes::mib(16), &mut quiet()).unwrap();
    let path = device(&trial);
    let command = line("mkfs.ext4", &["-q", path.to_str().unwrap()]);
    assert_eq!(trial.tool(&command, &AtomicBool::new(false), None).unwrap().exit, Some(0));
    // It leaves its parent and session, and stands in the mount, which it would keep busy.
    let mark = format!("fsdyno-{}", std::process::id());
    let script = "cd \"$1\" && setsid -f sh -c 'while :; do sleep 1; done' \"$0\"";
    let daemon = line("sh", &["-c", script, &mark, POINT]);
    let wanted = MountPlan {
        daemon: Some(daemon),
        stated: vec![("cleaner".into(), "on".into())],
        ..plan("ext4", &path)
    };
    for _ in 0..2 {
        let facts = trial.mount(&wanted).unwrap();
        assert_eq!(facts["cleaner"], "on");
        let argv = facts["daemon"].as_array().unwrap();
        assert_eq!(argv.last().unwrap(), &json!(trial.mount_point().unwrap()), "{argv:?}");
        assert_eq!(processes(&mark).len(), 1, "{:?}", processes(&mark));
        trial.unmount().unwrap();
        assert_eq!(processes(&mark), Vec::<String>::new());
    }
    // One that goes away meanwhile is told, and the file system is unmounted all the same.
    let brief = MountPlan { daemon: Some(line("sh", &["-c", "sleep 0.5"])), ..wanted.clone() };
    trial.mount(&brief).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let failure = trial.unmount().unwrap_err();
    assert!(failure.reason.message.contains("ended while its file system was mounted"), "{failure}");
    assert!(trial.mount_point().is_none());
    // One that ends at once is no mount.
    let broken = MountPlan { daemon: Some(line("sh", &["-c", "echo no device; exit 1"])), ..wanted.clone() };
    let failure = trial.mount(&broken).unwrap_err();
    assert!(failure.reason.message.contains("no device"), "{failure}");
    assert!(trial.mount_point().is_none());
    trial.mount(&wanted).unwrap();
    drop(trial);
    assert_eq!(processes(&mark), Vec::<String>::new(), "forgotten ones are taken down too");
    drop(rig);
    assert!(bound_below(folder.path()).is_empty() && leftovers(folder.path()).is_empty());
}

/// Mounts by a helper with a daemon beside it and waits, if it is told where; as a test it does nothing.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os("FSDYNO_HELPED_VICTIM") else { return };
    let mut rig = rig(Path::new(&folder));
    let (mut trial, plan) = made(&mut rig, "a");
    let daemon = line("sh", &["-c", "setsid -f sh -c 'while :; do sleep 1; done' \"$0\"", &mark(&folder)]);
    trial.mount(&MountPlan { daemon: Some(daemon), ..plan }).unwrap();
    println!("device {}", device(&trial).display());
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn mark(folder: impl AsRef<Path>) -> String {
    format!("daemon-of-{}", folder.as_ref().display())
}

#[test]
fn helper_and_daemon_of_a_killed_agent_die_with_it_and_its_stack_is_cleaned() {
    needs_root!();
    if !can_help() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "victim", "--nocapture"]).env("FSDYNO_HELPED_VICTIM", folder.path());
    let mut victim = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    let device = lines.find_map(|line| line.unwrap().strip_prefix("device ").map(str::to_string)).unwrap();
    let mark = mark(folder.path());
    assert_eq!((processes(&device).len(), processes(&mark).len()), (1, 1));
    victim.kill().unwrap();
    victim.wait().unwrap();
    let gone = || processes(&device).is_empty() && processes(&mark).is_empty();
    for _ in 0..500 {
        if gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone(), "{:?} {:?}", processes(&device), processes(&mark));
    // A process that is stuck in its exit has no command line any more; what it holds up shows here.
    let forget = || fs::write("/proc/sys/vm/drop_caches", "1");
    let (sender, dropped) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(forget()));
    assert!(dropped.recv_timeout(Duration::from_secs(30)).is_ok(), "the machine's caches cannot be dropped");
    let rig = Rig::open(options(folder.path())).unwrap();
    let cleaned = rig.cleaned().clone();
    assert_eq!((cleaned.left.len(), cleaned.failed.len()), (0, 0), "{cleaned:?}");
    drop(rig);
    assert!(bound_below(folder.path()).is_empty() && leftovers(folder.path()).is_empty());
}
