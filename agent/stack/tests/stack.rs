//! The stack on real loop devices: what the kernel says must be what was asked for.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use common::{bound_below, device, directory, leftovers, line, options, plan, quiet, rig, stack};
use fsdyno_spec::event::{Cleaned, Refusal};
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::{Backing, Device, Settings, WriteCache};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Rig, TrialStack};
use serde_json::json;

const SIZE: Bytes = Bytes::mib(320);
const SMALL: Bytes = Bytes::mib(16);

fn mkfs(trial: &mut TrialStack<'_>, program: &str, args: &[&str]) {
    let path = trial.device().unwrap().path.to_string_lossy().into_owned();
    let args: Vec<&str> = args.iter().copied().chain([path.as_str()]).collect();
    let out = trial.tool(&line(program, &args), &AtomicBool::new(false), None).unwrap();
    assert_eq!(out.exit, Some(0), "{}", String::from_utf8_lossy(&out.stderr));
}

fn dev(trial: &TrialStack<'_>) -> std::path::PathBuf {
    trial.device().unwrap().path.clone()
}

#[test]
fn a_trial_from_device_to_data_and_back_leaves_nothing() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("t1", &stack(SIZE, Backing::Sparse)).unwrap();
    let built = trial.build(true, SMALL, &mut quiet()).unwrap();
    let facts = &built[0].facts;
    assert_eq!((&facts["kind"], &facts["size"]), (&json!("loop"), &json!(SIZE)));
    let sysfs = Path::new("/sys/block").join(&trial.device().unwrap().kernel_name);
    assert_eq!(facts["direct_io"], json!(fs::read_to_string(sysfs.join("loop/dio")).unwrap().trim() == "1"));
    mkfs(&mut trial, "mkfs.ext4", &["-q"]);
    let facts = trial.mount(&plan("ext4", &dev(&trial))).unwrap();
    assert_eq!(facts["fstype"], "ext4");
    assert!(facts["super_options"].as_str().unwrap().starts_with("rw"));
    let root = trial.data_root().unwrap().to_path_buf();
    fs::write(root.join("x"), vec![7; 100_000]).unwrap();
    trial.sync().unwrap();
    trial.unmount().unwrap();
    assert!(!root.join("x").exists() && trial.data_root().is_none());
    trial.mount(&plan("ext4", &dev(&trial))).unwrap();
    trial.drop_caches().unwrap();
    assert_eq!(fs::read(root.join("x")).unwrap().len(), 100_000);
    assert_eq!(trial.teardown(), Vec::<String>::new());
    assert!(bound_below(folder.path()).is_empty());
    drop(rig);
    assert!(leftovers(folder.path()).is_empty(), "{:?}", leftovers(folder.path()));
    assert!(!sysfs.exists(), "the loop number is given back");
}

#[test]
fn a_stack_that_is_forgotten_is_taken_down_all_the_same() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("t1", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, SMALL, &mut quiet()).unwrap();
    mkfs(&mut trial, "mkfs.ext4", &["-q"]);
    trial.mount(&plan("ext4", &dev(&trial))).unwrap();
    drop(trial);
    drop(rig);
    assert!(bound_below(folder.path()).is_empty() && leftovers(folder.path()).is_empty());
}

#[test]
fn our_mounts_are_seen_by_nobody_else() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("t1", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(false, SMALL, &mut quiet()).unwrap();
    trial.mount(&plan("tmpfs", Path::new("word"))).unwrap();
    let point = trial.mount_point().unwrap().to_string_lossy().into_owned();
    assert!(fs::read_to_string("/proc/thread-self/mountinfo").unwrap().contains(&point));
    assert!(!fs::read_to_string("/proc/1/mountinfo").unwrap().contains(&point));
    assert!(trial.teardown().is_empty());
}

#[test]
fn mkfs_discards_and_zeroes_do_not_punch_a_written_file() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    layout_is_kept(&mut rig, &stack(SIZE, Backing::Written));
}

#[test]
fn a_copy_on_write_host_keeps_the_layout_too() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let (image, point) = (folder.path().join("host.img"), folder.path().join("host"));
    fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(&point).unwrap();
    common::run("mkfs.btrfs", &["-q", &image.to_string_lossy()]);
    common::run("mount", &["-o", "loop", &image.to_string_lossy(), &point.to_string_lossy()]);
    let mut file = device(SIZE, Backing::Written);
    file.folder = Some(point.clone());
    let spec = fsdyno_spec::trial::Stack { devices: vec![Device::File(file)], ..Default::default() };
    layout_is_kept(&mut rig, &spec);
    drop(rig);
    common::unmount(&point);
}

fn layout_is_kept(rig: &mut Rig, spec: &fsdyno_spec::trial::Stack) {
    for (name, program, args) in [
        ("a", "mkfs.ext4", &["-q"][..]),
        ("b", "mkfs.xfs", &["-q", "-f"]),
        ("c", "mkfs.btrfs", &["-q", "-f"]),
    ] {
        let mut trial = rig.begin(name, spec).unwrap();
        let facts = trial.build(true, SMALL, &mut quiet()).unwrap().remove(0).facts;
        assert_eq!(facts["backing_reused"], json!(name != "a"), "the same file serves all trials");
        let file = backing(&trial);
        let before = extents(&file);
        assert!(fs::metadata(&file).unwrap().blocks() * 512 >= SIZE.0 && !before.is_empty());
        mkfs(&mut trial, program, args);
        assert_eq!(extents(&file), before, "{program} changed the layout");
        assert!(trial.teardown().is_empty());
    }

    /// Our own descriptor of the deleted backing file.
    fn backing(trial: &TrialStack<'_>) -> std::path::PathBuf {
        let name = &trial.device().unwrap().kernel_name;
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap();
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|e| e.unwrap().path());
        let mut ours = open.filter(|p| fs::read_link(p).is_ok_and(|t| t.to_string_lossy() == file.trim()));
        ours.next().expect("the backing file is open")
    }

    /// Where the blocks lie, from filefrag: logical and physical start, length, whether unwritten.
    /// The host's file system may cut one run of blocks into extents as it likes, so runs are joined.
    fn extents(path: &Path) -> Vec<(u64, u64, u64, bool)> {
        let path = fs::canonicalize("/proc/self").unwrap().join("fd").join(path.file_name().unwrap());
        let out = std::process::Command::new("filefrag").arg("-v").arg(path).output().unwrap();
        let mut runs: Vec<(u64, u64, u64, bool)> = Vec::new();
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            let numbers = line.split([' ', ':', '.']).filter(|w| !w.is_empty());
            let numbers: Vec<u64> = numbers.map_while(|w| w.parse().ok()).collect();
            let &[_, logical, _, physical, _, length, ..] = &numbers[..] else { continue };
            let unwritten = line.contains("unwritten");
            match runs.last_mut() {
                Some(run) if (run.0 + run.2, run.1 + run.2, run.3) == (logical, physical, unwritten) => {
                    run.2 += length;
                }
                _ => runs.push((logical, physical, length, unwritten)),
            }
        }
        runs
    }
}

#[test]
fn the_next_trial_meets_a_blank_device() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    for (name, program) in [("a", "mkfs.btrfs"), ("b", "mkfs.xfs"), ("c", "mkfs.ext4")] {
        let mut trial = rig.begin(name, &stack(SIZE, Backing::Written)).unwrap();
        trial.build(true, SMALL, &mut quiet()).unwrap();
        let path = dev(&trial).to_string_lossy().into_owned();
        let probe = trial.tool(&line("blkid", &["-p", &path]), &AtomicBool::new(false), None).unwrap();
        assert_eq!(probe.exit, Some(2), "{}", String::from_utf8_lossy(&probe.stdout));
        mkfs(&mut trial, program, &["-q"]);
        assert!(trial.teardown().is_empty());
    }
}

#[test]
fn settings_are_taken_proved_and_gone_in_the_next_trial() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut spec = stack(SIZE, Backing::Sparse);
    spec.settings = Settings {
        read_ahead: Some(Bytes::kib(512)),
        scheduler: Some("mq-deadline".into()),
        write_cache: Some(WriteCache::WriteThrough),
        ..Settings::default()
    };
    let mut trial = rig.begin("a", &spec).unwrap();
    let facts = trial.build(true, SMALL, &mut quiet()).unwrap().remove(1).facts;
    assert_eq!(facts["flushes_per_fsync"], json!(0));
    assert_eq!((&facts["scheduler"], &facts["read_ahead"]), (&json!("mq-deadline"), &json!(524_288)));
    let back = Settings { write_cache: Some(WriteCache::WriteBack), ..Settings::default() };
    let facts = trial.set(&back).unwrap();
    assert!(facts["flushes_per_fsync"].as_u64().unwrap() >= 1);
    assert_eq!(facts["read_ahead"], json!(524_288), "one setting does not undo another");
    trial.set(&spec.settings).unwrap();
    assert!(trial.teardown().is_empty());

    let mut trial = rig.begin("b", &stack(SIZE, Backing::Sparse)).unwrap();
    let facts = trial.build(true, SMALL, &mut quiet()).unwrap().remove(1).facts;
    assert_eq!((&facts["scheduler"], &facts["write_cache"]), (&json!("none"), &json!("write back")));
    assert_eq!((&facts["read_ahead_kb"], &facts["discard_max_bytes"]), (&json!("128"), &json!("0")));
    assert!(trial.teardown().is_empty());
}

#[test]
fn a_setting_that_the_kernel_does_not_take_is_an_error_with_the_choices() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SMALL, Backing::Sparse)).unwrap();
    trial.build(true, SMALL, &mut quiet()).unwrap();
    let wrong = Settings { scheduler: Some("elevator".into()), ..Settings::default() };
    let failure = trial.set(&wrong).unwrap_err();
    assert!(failure.reason.advice.unwrap().contains("mq-deadline"));
    let odd = Settings { read_ahead: Some(Bytes(5000)), ..Settings::default() };
    assert!(trial.set(&odd).unwrap_err().reason.message.contains("instead of"));
    assert!(trial.teardown().is_empty());
}

#[test]
fn read_ahead_reaches_the_file_systems_own_info_at_every_mount() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    for (name, program, fstype) in
        [("a", "mkfs.ext4", "ext4"), ("b", "mkfs.xfs", "xfs"), ("c", "mkfs.btrfs", "btrfs")]
    {
        let mut spec = stack(SIZE, Backing::Sparse);
        spec.settings.read_ahead = Some(Bytes::kib(256));
        let mut trial = rig.begin(name, &spec).unwrap();
        trial.build(true, SMALL, &mut quiet()).unwrap();
        mkfs(&mut trial, program, &["-q"]);
        for _ in 0..2 {
            let facts = trial.mount(&plan(fstype, &dev(&trial))).unwrap();
            assert_eq!(facts["read_ahead"], json!(262_144), "{fstype}");
            let shared = facts["read_ahead_layer"].as_str().unwrap().contains("/7:");
            assert_eq!(shared, fstype != "btrfs", "{fstype}: {facts:?}");
            let more = Settings { read_ahead: Some(Bytes::kib(256)), ..Settings::default() };
            assert_eq!(trial.set(&more).unwrap()["read_ahead_layer"], facts["read_ahead_layer"]);
            trial.unmount().unwrap();
        }
        assert!(trial.teardown().is_empty());
    }
}

#[test]
fn a_mount_that_fails_tells_what_the_kernel_said_and_can_be_tried_again() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SIZE, Backing::Sparse)).unwrap();
    trial.build(true, SMALL, &mut quiet()).unwrap();
    let mut wrong = plan("ext4", &dev(&trial));
    let failure = trial.mount(&wrong).unwrap_err();
    assert_eq!(failure.outcome, Outcome::Failed);
    mkfs(&mut trial, "mkfs.ext4", &["-q"]);
    wrong.params = vec![("nonsense".into(), None)];
    let failure = trial.mount(&wrong).unwrap_err();
    assert!(failure.reason.message.contains("Unknown parameter"), "{failure}");
    assert!(failure.reason.message.contains("nonsense"), "{failure}");
    let missing = trial.mount(&plan("fsdynofs", Path::new("x"))).unwrap_err();
    assert_eq!(missing.outcome, Outcome::Unsupported);
    trial.mount(&plan("ext4", &dev(&trial))).unwrap();
    assert!(trial.teardown().is_empty());
}

#[test]
fn attributes_of_the_mount_are_taken() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SMALL, Backing::Sparse)).unwrap();
    assert!(trial.build(false, SMALL, &mut quiet()).unwrap().is_empty());
    let mut wanted = plan("tmpfs", Path::new("fsdyno"));
    wanted.params = vec![("size".into(), Some("8388608".into()))];
    wanted.attributes = vec!["noatime".into(), "nosuid".into()];
    let facts = trial.mount(&wanted).unwrap();
    let options = facts["mount_options"].as_str().unwrap();
    assert!(options.contains("noatime") && options.contains("nosuid"), "{options}");
    assert!(facts["super_options"].as_str().unwrap().contains("size=8192k"));
    assert!(trial.device().is_none() && trial.leaves().is_empty());
    assert!(trial.teardown().is_empty());
}

#[test]
fn a_busy_mount_names_its_holder() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SMALL, Backing::Sparse)).unwrap();
    trial.build(false, SMALL, &mut quiet()).unwrap();
    trial.mount(&plan("tmpfs", Path::new("fsdyno"))).unwrap();
    let file = fs::File::create(trial.data_root().unwrap().join("open")).unwrap();
    let failure = trial.unmount().unwrap_err();
    assert_eq!(failure.outcome, Outcome::TeardownFailed);
    assert!(failure.reason.message.contains(&std::process::id().to_string()), "{failure}");
    drop(file);
    assert!(trial.teardown().is_empty());
}

#[test]
fn block_sizes_are_those_asked_for() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut spec = stack(SMALL, Backing::Sparse);
    let mut file = device(SMALL, Backing::Sparse);
    file.logical_block_size = Bytes(4096);
    spec.devices = vec![Device::File(file.clone())];
    let mut trial = rig.begin("a", &spec).unwrap();
    trial.build(true, SMALL, &mut quiet()).unwrap();
    assert_eq!(trial.device().unwrap().logical_block_size, Bytes(4096));
    assert!(trial.teardown().is_empty());
    for (size, block) in [(SMALL, 777), (Bytes(SMALL.0 + 512), 512)] {
        file.logical_block_size = Bytes(block);
        file.size = size;
        spec.devices = vec![Device::File(file.clone())];
        let mut trial = rig.begin("b", &spec).unwrap();
        assert_eq!(trial.build(true, SMALL, &mut quiet()).unwrap_err().refusal, Refusal::BadRequest);
        assert!(trial.teardown().is_empty());
    }
}

#[test]
fn too_small_and_too_large_devices_are_refused_with_numbers() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &stack(SMALL, Backing::Sparse)).unwrap();
    let refused = trial.build(true, Bytes::mib(300), &mut quiet()).unwrap_err();
    assert_eq!(refused.refusal, Refusal::BadRequest);
    assert!(refused.reason.message.contains("300 MiB"));
    assert!(trial.teardown().is_empty());
    let mut trial = rig.begin("b", &stack(Bytes(1 << 55), Backing::Written)).unwrap();
    let refused = trial.build(true, SMALL, &mut quiet()).unwrap_err();
    assert_eq!(refused.refusal, Refusal::Environment);
    assert!(refused.reason.message.contains("are free there"), "{refused}");
    assert!(trial.teardown().is_empty());
    drop(rig);
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn a_full_disk_below_is_named() {
    needs_root!();
    // A tmpfs of 8 MiB stands for the full disk.
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    common::run("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs", &small.to_string_lossy()]);
    let mut spec = stack(SIZE, Backing::Sparse);
    let mut file = device(SIZE, Backing::Sparse);
    file.folder = Some(small.clone());
    spec.devices = vec![Device::File(file)];
    let mut trial = rig.begin("a", &spec).unwrap();
    trial.build(true, SMALL, &mut quiet()).unwrap();
    mkfs(&mut trial, "mkfs.ext4", &["-q", "-E", "lazy_itable_init=1,lazy_journal_init=1"]);
    trial.mount(&plan("ext4", &dev(&trial))).unwrap();
    let wrote = fs::write(trial.data_root().unwrap().join("big"), vec![1; 32 << 20]);
    let failure = trial.sync().err();
    assert!(wrote.is_err() || failure.is_some());
    assert!(trial.full().is_some_and(|why| why.contains("is full")), "{failure:?}");
    assert!(trial.teardown().is_empty());
    drop(rig);
    common::unmount(&small);
}

#[test]
fn a_directory_is_only_touched_in_a_folder_of_our_own() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("theirs"), "x").unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("a", &directory(&place)).unwrap();
    let built = trial.build(false, SMALL, &mut quiet()).unwrap();
    assert_eq!(built[0].part, "directory");
    let root = trial.data_root().unwrap().to_path_buf();
    assert_eq!(root.parent().unwrap(), place.canonicalize().unwrap());
    let deep = root.join("d".repeat(100)).join("e");
    fs::create_dir_all(&deep).unwrap();
    for n in 0..3000 {
        fs::write(deep.join(n.to_string()), "").unwrap();
    }
    std::os::unix::fs::symlink(place.join("theirs"), root.join("link")).unwrap();
    std::os::unix::fs::symlink(&place, root.join("folder link")).unwrap();
    trial.sync().unwrap();
    assert!(trial.teardown().is_empty());
    let left: Vec<_> = fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["theirs"]);
    assert_eq!(fs::read_to_string(place.join("theirs")).unwrap(), "x");
}

#[test]
fn a_directory_that_cannot_serve_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut refuse = |path: &Path| {
        let mut trial = rig.begin("a", &directory(path)).unwrap();
        let refused = trial.build(false, SMALL, &mut quiet()).unwrap_err();
        assert!(refused.reason.advice.is_some());
        refused.reason.message
    };
    assert!(refuse(&folder.path().join("none")).contains("does not exist"));
    assert!(refuse(&file).contains("not a directory"));
    assert!(refuse(Path::new("/sys/kernel")).contains("/sys/kernel"));
    if !rustix::process::geteuid().is_root() {
        let closed = folder.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
        assert!(refuse(&closed).contains("not writable"));
    } else {
        let read_only = folder.path().join("ro");
        fs::create_dir(&read_only).unwrap();
        common::run("mount", &["-t", "tmpfs", "-o", "ro", "tmpfs", &read_only.to_string_lossy()]);
        assert!(refuse(&read_only).contains("read-only"));
        common::unmount(&read_only);
    }
}

#[test]
fn a_rig_measures_for_one_agent_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = rig(folder.path());
    let second = Rig::open(options(folder.path())).unwrap_err();
    assert_eq!(second.refusal, Refusal::Busy);
    assert!(second.reason.message.contains(&std::process::id().to_string()));
    drop(first);
    assert_eq!(*rig(folder.path()).cleaned(), Cleaned::default());
}

#[test]
fn without_root_devices_are_refused_and_directories_named_as_the_way() {
    if rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: this is about agents without root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let refused = rig.begin("a", &stack(SMALL, Backing::Sparse)).unwrap_err();
    assert_eq!(refused.refusal, Refusal::NoRoot);
    assert!(refused.reason.advice.unwrap().contains("bench DIR"));
}

#[test]
fn two_trials_of_one_id_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    fs::write(folder.path().join("state/ledger/trial-a.jsonl"), "").unwrap();
    let refused = rig.begin("a", &directory(folder.path())).unwrap_err();
    assert!(refused.reason.advice.unwrap().contains("fsdyno clean"));
}

#[test]
fn folders_that_others_can_write_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    fs::create_dir(&options.state).unwrap();
    fs::set_permissions(&options.state, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Rig::open(options).unwrap_err();
    assert!(refused.reason.message.contains("written by other users"), "{refused}");
}

#[test]
fn a_trial_name_that_is_no_file_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    for name in ["", "../x", "a b"] {
        assert_eq!(rig.begin(name, &directory(folder.path())).unwrap_err().refusal, Refusal::BadRequest);
    }
}
