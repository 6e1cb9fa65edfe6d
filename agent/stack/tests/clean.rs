//! What `clean` does with what dead agents left, and above all what it does not do. The ledgers
//! here are written as text: their format is what two versions of the agent share.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::{Foreign, bound_below, leftovers, line, options, plan, quiet, rig, stack};
use fsdyno_spec::event::Cleaned;
use fsdyno_spec::trial::Backing;
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Rig, clean};
use serde_json::{Value, json};

const SIZE: Bytes = Bytes::mib(16);

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_string()
}

/// A state folder with a ledger of these entries, as a dead agent leaves it.
fn ledger(folder: &Path, boot: &str, entries: &[Value]) -> PathBuf {
    let state = folder.join("state");
    fs::create_dir_all(state.join("ledger")).unwrap();
    let mut text = json!({"fsdyno_ledger": 1, "boot": boot, "pid": 1}).to_string() + "\n";
    for entry in entries {
        text += &(entry.to_string() + "\n");
    }
    fs::write(state.join("ledger/trial-x.jsonl"), text).unwrap();
    state
}

fn replay(folder: &Path, entries: &[Value]) -> Cleaned {
    clean(&ledger(folder, &boot(), entries))
}

/// Identity as ledgers have it, without a birth time where `stat` shows none.
fn identity(path: &Path) -> Value {
    let meta = fs::symlink_metadata(path).unwrap();
    let born = meta.created().ok().map(|t| t.duration_since(std::time::UNIX_EPOCH).unwrap());
    json!({"dev": meta.dev(), "ino": meta.ino(), "born": born.map(|b| (b.as_secs(), b.subsec_nanos()))})
}

/// A mount namespace of this test's own.
fn private_mounts() {
    // SAFETY: only the mount namespace of this thread is unshared.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.unwrap();
    let private = rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).unwrap();
}

fn mount_tmpfs(point: &Path) {
    common::run("mount", &["-t", "tmpfs", "decoy", &point.to_string_lossy()]);
}

fn mounted(point: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    mounts.lines().filter(|l| l.split(' ').nth(4) == point.to_str()).count()
}

/// `id` as ledgers have it, of the topmost mount at a path.
fn mount_id(point: &Path) -> Value {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let ask = |mask| statx(CWD, point, AtFlags::empty(), mask).unwrap();
    let unique = ask(StatxFlags::from_bits_retain(0x4000));
    let known = unique.stx_mask & 0x4000 != 0;
    let kind = rustix::fs::statfs(point).unwrap().f_type;
    let (id, dev) = (ask(StatxFlags::MNT_ID).stx_mnt_id, fs::metadata(point).unwrap().dev());
    json!({"id": id, "unique": known.then_some(unique.stx_mnt_id), "dev": dev, "kind": kind})
}

#[test]
fn a_folder_of_ours_goes_with_its_contents_but_no_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("fsdyno-ours"), folder.path().join("theirs"));
    fs::create_dir_all(ours.join("a/b/c")).unwrap();
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("precious"), "x").unwrap();
    std::os::unix::fs::symlink(&theirs, ours.join("a/link")).unwrap();
    let entries = [
        json!({"folder": {"path": ours, "made": null}}),
        json!({"folder": {"path": ours, "made": identity(&ours)}}),
    ];
    let cleaned = replay(folder.path(), &entries);
    assert_eq!((cleaned.undone.len(), cleaned.left.len(), cleaned.failed.len()), (1, 0, 0), "{cleaned:?}");
    assert!(!ours.exists() && theirs.join("precious").exists());
    assert!(leftovers(folder.path()).is_empty(), "the ledger is gone");
    assert_eq!(clean(&folder.path().join("state")), Cleaned::default(), "nothing is undone twice");
}

#[test]
fn a_ledger_with_every_detail_right_removes_nothing_that_has_no_name_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("empty"), "").unwrap();
    let entries = [
        json!({"folder": {"path": home, "made": identity(&home)}}),
        json!({"file": {"path": home.join("empty"), "made": identity(&home.join("empty"))}}),
        json!({"file": {"path": home.join("empty"), "made": null}}),
    ];
    let cleaned = replay(folder.path(), &entries);
    assert!(home.join("empty").exists());
    assert_eq!((cleaned.undone.len(), cleaned.left.len()), (0, 3), "{cleaned:?}");
}

#[test]
fn a_folder_that_took_over_the_name_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("fsdyno-ours");
    fs::create_dir(&ours).unwrap();
    let entry = json!({"folder": {"path": ours, "made": identity(&ours)}});
    fs::remove_dir(&ours).unwrap();
    fs::create_dir(&ours).unwrap();
    fs::write(ours.join("precious"), "x").unwrap();
    let cleaned = replay(folder.path(), std::slice::from_ref(&entry));
    assert!(ours.join("precious").exists());
    assert_eq!((cleaned.undone.len(), cleaned.left.len()), (0, 1), "{cleaned:?}");

    let theirs = folder.path().join("theirs");
    fs::rename(&ours, &theirs).unwrap();
    std::os::unix::fs::symlink(&theirs, &ours).unwrap();
    let cleaned = replay(folder.path(), &[entry]);
    assert!(theirs.join("precious").exists() && ours.is_symlink(), "{cleaned:?}");
}

#[test]
fn a_folder_is_recognised_after_a_reboot_that_renumbered_its_disk() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("fsdyno-ours");
    fs::create_dir(&ours).unwrap();
    let mut identity = identity(&ours);
    if identity["born"].is_null() {
        eprintln!("SKIPPED: this file system keeps no birth times");
        return;
    }
    identity["dev"] = json!(1);
    let entry = |identity: &Value| [json!({"folder": {"path": ours, "made": identity}})];
    let same = replay(folder.path(), &entry(&identity));
    assert!(ours.exists() && same.left.len() == 1, "within a boot numbers do not change: {same:?}");
    let mut unborn = identity.clone();
    unborn["born"] = Value::Null;
    assert_eq!(clean(&ledger(folder.path(), "another boot", &entry(&unborn))).left.len(), 1);
    let cleaned = clean(&ledger(folder.path(), "another boot", &entry(&identity)));
    assert!(!ours.exists(), "{cleaned:?}");
}

#[test]
fn an_announced_folder_goes_only_if_it_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["empty", "full", "absent"].map(|n| folder.path().join(format!("fsdyno-{n}")));
    fs::create_dir(&paths[0]).unwrap();
    fs::create_dir(&paths[1]).unwrap();
    fs::write(paths[1].join("precious"), "x").unwrap();
    let entries = paths.clone().map(|path| json!({"folder": {"path": path, "made": null}}));
    let cleaned = replay(folder.path(), &entries);
    assert!(!paths[0].exists() && paths[1].join("precious").exists());
    assert_eq!((cleaned.undone.len(), cleaned.left.len(), cleaned.failed.len()), (1, 1, 0), "{cleaned:?}");
}

#[test]
fn a_file_goes_only_if_it_is_the_one_that_was_made_or_an_empty_one_that_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |n: &str| folder.path().join(format!("fsdyno-{n}"));
    for name in ["made", "replaced", "filled", "linked"] {
        fs::write(path(name), "x").unwrap();
    }
    fs::write(path("announced"), "").unwrap();
    let was = identity(&path("replaced"));
    fs::remove_file(path("replaced")).unwrap();
    fs::write(path("replaced"), "precious").unwrap();
    std::os::unix::fs::symlink(path("linked"), path("link")).unwrap();
    let entries = [
        json!({"file": {"path": path("made"), "made": identity(&path("made"))}}),
        json!({"file": {"path": path("replaced"), "made": was}}),
        json!({"file": {"path": path("filled"), "made": null}}),
        json!({"file": {"path": path("announced"), "made": null}}),
        json!({"file": {"path": path("link"), "made": null}}),
    ];
    let cleaned = replay(folder.path(), &entries);
    assert_eq!((cleaned.undone.len(), cleaned.left.len(), cleaned.failed.len()), (2, 3, 0), "{cleaned:?}");
    assert!(!path("made").exists() && !path("announced").exists());
    assert_eq!(fs::read_to_string(path("replaced")).unwrap(), "precious");
    assert!(path("filled").exists() && path("link").is_symlink() && path("linked").exists());
}

#[test]
fn a_mount_inside_a_folder_of_ours_is_not_entered() {
    needs_root!();
    private_mounts();
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("fsdyno-ours/inner");
    fs::create_dir_all(&inner).unwrap();
    mount_tmpfs(&inner);
    fs::write(inner.join("precious"), "x").unwrap();
    let ours = folder.path().join("fsdyno-ours");
    let entries = [json!({"folder": {"path": ours, "made": identity(&ours)}})];
    let cleaned = replay(folder.path(), &entries);
    assert_eq!(cleaned.failed.len(), 1, "{cleaned:?}");
    assert!(inner.join("precious").exists());
    common::unmount(&inner);
    assert!(
        clean(&folder.path().join("state")).failed.is_empty(),
        "the ledger was kept, so it can be tried again"
    );
    assert!(!ours.exists());
}

#[test]
fn a_mount_goes_only_if_it_is_ours_and_on_top() {
    needs_root!();
    private_mounts();
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    mount_tmpfs(&point);
    let ours = json!({"mount": {"point": point, "id": mount_id(&point)}});
    mount_tmpfs(&point);
    let covered = replay(folder.path(), std::slice::from_ref(&ours));
    assert_eq!((mounted(&point), covered.left.len(), covered.undone.len()), (2, 1, 0), "{covered:?}");
    common::unmount(&point);
    let on_top = replay(folder.path(), std::slice::from_ref(&ours));
    assert_eq!((mounted(&point), on_top.undone.len()), (0, 1), "{on_top:?}");
    // The next mount may well get the recycled number, but never the unique one.
    mount_tmpfs(&point);
    let decoy = replay(folder.path(), std::slice::from_ref(&ours));
    assert_eq!((mounted(&point), decoy.undone.len()), (1, 0), "{decoy:?}");
    common::unmount(&point);
}

#[test]
fn a_mount_that_took_over_the_number_of_ours_stays_on_kernels_without_unique_ones() {
    needs_root!();
    private_mounts();
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    mount_tmpfs(&point);
    let mut id = mount_id(&point);
    id["unique"] = Value::Null;
    for (field, other) in [("dev", 1), ("kind", 0xef53)] {
        let mut theirs = id.clone();
        theirs[field] = json!(other);
        let decoy = replay(folder.path(), &[json!({"mount": {"point": point, "id": theirs}})]);
        assert_eq!((mounted(&point), decoy.undone.len(), decoy.left.len()), (1, 0, 1), "{decoy:?}");
    }
    let ours = replay(folder.path(), &[json!({"mount": {"point": point, "id": id}})]);
    assert_eq!((mounted(&point), ours.undone.len()), (0, 1), "{ours:?}");
}

#[test]
fn a_loop_device_goes_only_with_its_token_and_its_backing_file() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backing.img");
    fs::write(&file, vec![5u8; 1 << 20]).unwrap();
    let foreign = Foreign::attach(&file);
    let number: u32 = foreign.path.to_string_lossy().trim_start_matches("/dev/loop").parse().unwrap();
    let state = || (bound_below(folder.path()), fs::read(&file).unwrap(), foreign.path.exists());
    let before = state();
    let entries = [
        // A number that we added once and somebody else uses now.
        json!({"loop_number": {"number": number}}),
        // The very same backing file, but another token (losetup writes the path).
        json!({"loop": {"token": "fsdyno:x:1", "backing": identity(&file), "name": "backing.img"}}),
    ];
    let cleaned = replay(folder.path(), &entries);
    assert_eq!(state(), before);
    assert_eq!((cleaned.undone.len(), cleaned.left.len(), cleaned.failed.len()), (0, 1, 0), "{cleaned:?}");

    // The very same token, but another backing file.
    let token = file.to_string_lossy().chars().take(63).collect::<String>();
    let other = folder.path().join("other");
    fs::write(&other, "x").unwrap();
    let entry = json!({"loop": {"token": token, "backing": identity(&other), "name": "backing.img"}});
    assert!(replay(folder.path(), &[entry]).undone.is_empty());
    assert_eq!(state(), before);

    // Both: that is what ours looks like.
    let entry = json!({"loop": {"token": token, "backing": identity(&file), "name": "backing.img"}});
    assert_eq!(replay(folder.path(), &[entry]).undone.len(), 1);
    assert!(bound_below(folder.path()).is_empty());
}

fn sleeper() -> Child {
    Command::new("sleep").arg("100").process_group(0).spawn().unwrap()
}

#[test]
fn a_process_goes_with_its_group_and_with_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 100 & sleep 100 & wait"]).process_group(0);
    let (mut child, mut other) = (command.spawn().unwrap(), sleeper());
    let group = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    let entry = json!({"process": {"pid": child.id(), "start": start_of(child.id())}});
    std::thread::sleep(Duration::from_millis(100));
    let reaper = std::thread::spawn(move || child.wait().unwrap());
    let cleaned = replay(folder.path(), &[entry]);
    assert_eq!((cleaned.undone.len(), cleaned.failed.len()), (1, 0), "{cleaned:?}");
    reaper.join().unwrap();
    // Orphans may wait a moment for whoever reaps them.
    let gone = || rustix::process::test_kill_process_group(group).is_err();
    for _ in 0..500 {
        if gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone() && other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

fn start_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
}

#[test]
fn a_process_goes_only_if_it_started_when_ours_did_and_in_this_boot() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = sleeper();
    let (pid, start) = (child.id(), start_of(child.id()));
    replay(folder.path(), &[json!({"process": {"pid": pid, "start": start - 1}})]);
    assert!(child.try_wait().unwrap().is_none(), "a recycled pid is not ours");
    let entry = json!({"process": {"pid": pid, "start": start}});
    let other = clean(&ledger(folder.path(), "another boot", std::slice::from_ref(&entry)));
    assert!(other.undone.is_empty());
    assert!(child.try_wait().unwrap().is_none(), "another boot's processes are gone by themselves");
    // Reaped from another thread: a zombie would still show its start time.
    let reaper = std::thread::spawn(move || child.wait().unwrap());
    let cleaned = replay(folder.path(), &[entry]);
    assert_eq!((cleaned.undone.len(), cleaned.failed.len()), (1, 0), "{cleaned:?}");
    assert!(!reaper.join().unwrap().success());
}

#[test]
fn queue_settings_of_another_disk_with_the_same_name_stay() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.img");
    fs::write(&file, vec![0u8; 1 << 20]).unwrap();
    let foreign = Foreign::attach(&file);
    let name = foreign.path.file_name().unwrap().to_string_lossy().into_owned();
    let queue = format!("/sys/block/{name}/queue/read_ahead_kb");
    let sequence: u64 =
        fs::read_to_string(format!("/sys/block/{name}/diskseq")).unwrap().trim().parse().unwrap();
    let old = fs::read_to_string(&queue).unwrap();
    fs::write(&queue, "64").unwrap();
    let entry = |sequence| json!({"queue": {"disk": name, "sequence": sequence, "attribute": "read_ahead_kb", "old": "256"}});
    replay(folder.path(), &[entry(sequence - 1)]);
    assert_eq!(fs::read_to_string(&queue).unwrap().trim(), "64");
    assert_eq!(replay(folder.path(), &[entry(sequence)]).undone.len(), 1);
    assert_eq!(fs::read_to_string(&queue).unwrap().trim(), "256");
    fs::write(&queue, old).unwrap();
}

#[test]
fn queue_settings_without_a_disk_sequence_go_back_only_with_serial_and_size() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.img");
    fs::write(&file, vec![0u8; 1 << 20]).unwrap();
    let foreign = Foreign::attach(&file);
    let name = foreign.path.file_name().unwrap().to_string_lossy().into_owned();
    let queue = format!("/sys/block/{name}/queue/read_ahead_kb");
    let old = fs::read_to_string(&queue).unwrap();
    fs::write(&queue, "64").unwrap();
    // As an old kernel's ledger has it; a loop device has no serial number to be known by.
    for (size, serial) in [(None, None), (Some(1 << 20), None), (Some(1 << 20), Some("S1"))] {
        let entry = json!({"queue": {"disk": name, "sequence": 0, "size": size, "serial": serial,
            "attribute": "read_ahead_kb", "old": "256"}});
        let cleaned = replay(folder.path(), &[entry]);
        assert_eq!((cleaned.undone.len(), cleaned.left.len()), (0, 1), "{cleaned:?}");
        assert_eq!(fs::read_to_string(&queue).unwrap().trim(), "64");
    }
    fs::write(&queue, old).unwrap();
}

#[test]
fn a_living_agents_ledger_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let mut trial = rig.begin("t", &common::directory(folder.path())).unwrap();
    trial.build(false, SIZE, &mut quiet()).unwrap();
    let root = trial.data_root().unwrap().to_path_buf();
    fs::write(root.join("x"), "x").unwrap();
    let cleaned = clean(&folder.path().join("state"));
    assert_eq!(cleaned, Cleaned { live: 2, ..Cleaned::default() }, "the rig's ledger and the trial's");
    assert!(root.join("x").exists());
    assert!(trial.teardown().is_empty());
}

#[test]
fn a_damaged_ledger_is_reported_and_kept_a_torn_one_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let state = ledger(folder.path(), &boot(), &[json!({"what": {}})]);
    let path = state.join("ledger/trial-x.jsonl");
    assert_eq!(clean(&state).failed.len(), 1);
    assert!(path.exists());
    let empty = folder.path().join("fsdyno-empty");
    fs::create_dir(&empty).unwrap();
    ledger(folder.path(), &boot(), &[json!({"folder": {"path": empty, "made": null}})]);
    fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"folder\":{\"pa").unwrap();
    assert!(clean(&state).failed.is_empty());
    assert!(!empty.exists() && !path.exists());
}

/// Runs trials until it is killed, if it is told where; as a test it does nothing.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os("FSDYNO_VICTIM") else { return };
    let mut rig = Rig::open(options(Path::new(&folder))).unwrap();
    for n in 0.. {
        let backing = if n % 2 == 0 { Backing::Written } else { Backing::Sparse };
        let mut trial = rig.begin(&format!("t{n}"), &stack(SIZE, backing)).unwrap();
        trial.build(true, SIZE, &mut quiet()).unwrap();
        let path = trial.device().unwrap().path.clone();
        let mkfs = line("mkfs.ext4", &["-q", &path.to_string_lossy()]);
        assert_eq!(trial.tool(&mkfs, &AtomicBool::new(false), None).unwrap().exit, Some(0));
        trial.mount(&plan("ext4", &path)).unwrap();
        fs::write(trial.data_root().unwrap().join("x"), vec![1; 1 << 20]).unwrap();
        println!("mounted");
        trial.unmount().unwrap();
        assert!(trial.teardown().is_empty());
    }
}

fn start_victim(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "victim", "--nocapture"]).env("FSDYNO_VICTIM", folder);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_agent_killed_at_any_moment_leaves_nothing_after_the_next_start() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    // Decoys: somebody's loop device, folder and file next to ours.
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("fsdyno-0000000000000000.img"), "precious").unwrap();
    let decoy = tempfile::tempdir().unwrap();
    let image = decoy.path().join("fsdyno-decoy.img");
    fs::write(&image, vec![9u8; 1 << 20]).unwrap();
    let foreign = Foreign::attach(&image);
    let one = time_of_a_trial();
    let mut reached = 0;
    for round in 0..50u32 {
        let mut victim = start_victim(folder.path());
        // Spread evenly over about the first two trials, in an order that mixes early and late.
        std::thread::sleep(one * 2 * (round * 19 % 50) / 50);
        victim.kill().unwrap();
        let printed = victim.wait_with_output().unwrap().stdout;
        reached += usize::from(String::from_utf8_lossy(&printed).contains("mounted"));
        let numbers = numbers_in_ledgers(folder.path());
        let rig = Rig::open(options(folder.path())).unwrap();
        let cleaned = rig.cleaned().clone();
        assert_eq!((cleaned.left.len(), cleaned.failed.len()), (0, 0), "round {round}: {cleaned:?}");
        for number in numbers {
            assert!(!Path::new(&format!("/sys/block/loop{number}")).exists(), "round {round}: loop{number}");
        }
        drop(rig);
        let left = leftovers(folder.path());
        assert_eq!(left, [work.join("fsdyno-0000000000000000.img")], "round {round}");
        assert!(bound_below(folder.path()).is_empty(), "round {round}");
    }
    assert!(reached > 0, "some must have been killed with a mount behind them");
    assert_eq!(fs::read(&image).unwrap(), vec![9u8; 1 << 20]);
    assert!(foreign.path.exists() && !bound_below(decoy.path()).is_empty());
}

/// How long a victim takes here until it has something mounted.
fn time_of_a_trial() -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let start = std::time::Instant::now();
    let mut victim = start_victim(folder.path());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("mounted")));
    let time = start.elapsed();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(Rig::open(options(folder.path())).unwrap().cleaned().failed.is_empty());
    time
}

/// Loop numbers that the ledgers below a folder name.
fn numbers_in_ledgers(folder: &Path) -> Vec<u64> {
    let ledgers = fs::read_dir(folder.join("state/ledger")).into_iter().flatten().map(|e| e.unwrap().path());
    let texts = ledgers.map(|path| fs::read_to_string(path).unwrap()).collect::<String>();
    let entries = texts.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries.filter_map(|entry| entry["loop_number"]["number"].as_u64()).collect()
}

#[test]
fn a_ledger_that_never_got_its_name_goes_when_nobody_has_the_rig() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path());
    let state = folder.path().join("state");
    let unfinished = state.join("ledger/.new-rig-0123456789abcdef");
    fs::write(&unfinished, "").unwrap();
    let _ = clean(&state);
    assert!(unfinished.exists(), "it may be that of the agent that has the rig");
    drop(rig);
    let _ = clean(&state);
    assert!(!unfinished.exists());
}
