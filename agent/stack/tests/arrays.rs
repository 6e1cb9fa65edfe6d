//! Real arrays and volume groups on loop devices: what is built is what was asked for, phases change it,
//! and nothing of it is left, whoever dies. They need md and the device mapper in the running kernel.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::{Foreign, bound_below, leftovers, options, quiet, rig};
use fsdyno_spec::outcome::Outcome;
use fsdyno_spec::trial::Stack;
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Change, Facts, Rig, TrialStack};
use serde_json::{Value, from_value, json};

static GO: AtomicBool = AtomicBool::new(false);

/// One test at a time: each looks at all arrays of the host.
static ALONE: Mutex<()> = Mutex::new(());

fn layers_here() -> Option<MutexGuard<'static, ()>> {
    let has = |file: &str, word: &str| fs::read_to_string(file).is_ok_and(|text| text.contains(word));
    let found = rustix::process::geteuid().is_root()
        && has("/proc/mdstat", "raid5")
        && has("/proc/misc", "device-mapper")
        && ["mdadm", "lvm"].into_iter().all(|tool| fsdyno_stack::find_program(tool).is_some());
    if !found {
        eprintln!("SKIPPED: needs root, md with level 5, the device mapper, mdadm and lvm2");
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn stack(devices: u32, more: Value) -> Stack {
    let mut text =
        json!({ "devices": [{ "file": { "size": 64 << 20, "backing": "sparse", "count": devices } }] });
    text.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    from_value(text).unwrap()
}

/// The facts of each part.
fn build(trial: &mut TrialStack<'_>) -> Vec<(String, Facts)> {
    let built = trial.build(true, Bytes(1 << 20), &mut quiet()).unwrap();
    built.into_iter().map(|part| (part.part, part.facts)).collect()
}

fn part<'a>(built: &'a [(String, Facts)], name: &str) -> &'a Facts {
    &built.iter().find(|(part, _)| part == name).unwrap().1
}

/// Arrays and mapped devices of the host.
fn standing() -> Vec<String> {
    let names = fs::read_dir("/sys/block").unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| match name.starts_with("md") {
            true => fs::read_to_string(format!("/sys/block/{name}/md/array_state"))
                .is_ok_and(|state| state.trim() != "clear"),
            false => name.starts_with("dm-"),
        })
        .collect()
}

#[test]
fn the_second_volume_of_a_group_lies_off_the_stripe_and_says_so() {
    let Some(_alone) = layers_here() else { return };
    let before = standing();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let spec = stack(
        4,
        json!({
            "array": { "level": 5, "chunk": 65536, "resync": "assume_clean" },
            "lvm": { "volumes": [{ "name": "one", "size": 32 << 20 }, { "name": "two" }] }
        }),
    );
    let mut trial = rig.begin("a", &spec).unwrap();
    let built = build(&mut trial);
    let (array, group) = (part(&built, "array"), part(&built, "lvm"));
    assert_eq!((&array["chunk"], &array["data_disks"]), (&json!(65536), &json!(3)));
    assert_eq!(array["optimal_io_size"], json!(3 * 65536));
    let first = group["first_byte"].as_u64().unwrap();
    let start = group["pe_start"].as_object().unwrap().values().next().unwrap().as_u64().unwrap();
    assert_eq!(first, start + (32 << 20));
    assert_eq!(group["off_stripe"], json!(first % (192 << 10)));
    assert_eq!(group["aligned"], json!(first % (192 << 10) == 0));
    assert!(trial.device().unwrap().kernel_name.starts_with("dm-"));
    assert!(trial.teardown().is_empty());
    assert_eq!(standing(), before);
}

#[test]
fn a_member_fails_comes_back_and_is_rebuilt() {
    let Some(_alone) = layers_here() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let spec = stack(3, json!({ "array": { "level": 5, "chunk": 65536 } }));
    let mut trial = rig.begin("a", &spec).unwrap();
    let built = build(&mut trial);
    assert_eq!(part(&built, "array")["degraded"], json!(0), "a built array is whole");
    assert_eq!(trial.at_work(), None);
    let facts = trial.change(&Change::Fail(&[1]), &GO).unwrap().unwrap();
    assert_eq!(facts["degraded"], json!(1));
    let refused = trial.change(&Change::Fail(&[2]), &GO).unwrap_err();
    assert!(refused.reason.message.contains("would lose its data"), "{refused}");
    let again = trial.change(&Change::Fail(&[1]), &GO).unwrap_err();
    assert!(again.reason.message.contains("not in the array"), "{again}");
    let facts = trial.change(&Change::Add { members: &[1], wait: false }, &GO).unwrap().unwrap();
    assert_eq!(facts["added"], json!({ "1": "add" }), "without a bitmap all of it is rebuilt");
    let facts = trial.change(&Change::Resync, &GO).unwrap().unwrap();
    assert_eq!((&facts["degraded"], trial.at_work()), (&json!(0), None));
    assert!(trial.teardown().is_empty());
}

#[test]
fn with_a_bitmap_a_member_is_added_again_as_what_it_was() {
    let Some(_alone) = layers_here() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let array = json!({ "array": { "level": 1, "bitmap": "internal", "resync": "assume_clean" } });
    let mut trial = rig.begin("a", &stack(2, array)).unwrap();
    build(&mut trial);
    trial.change(&Change::Fail(&[0]), &GO).unwrap();
    let facts = trial.change(&Change::Add { members: &[0], wait: true }, &GO).unwrap().unwrap();
    assert_eq!((&facts["added"], &facts["degraded"]), (&json!({ "0": "re-add" }), &json!(0)));
    assert!(trial.teardown().is_empty());
}

#[test]
fn an_array_and_its_volume_grow_by_a_spare() {
    let Some(_alone) = layers_here() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let spec = stack(
        4,
        json!({ "array": { "level": 5, "chunk": 65536, "spares": 1, "resync": "assume_clean" }, "lvm": {} }),
    );
    let mut trial = rig.begin("a", &spec).unwrap();
    build(&mut trial);
    let before = trial.device().unwrap().size;
    let many = trial.change(&Change::Grow { members: 5 }, &GO).unwrap_err();
    assert!(many.reason.message.contains("1 are there"), "{many}");
    let facts = trial.change(&Change::Grow { members: 4 }, &GO).unwrap().unwrap();
    assert_eq!((&facts["members"], &facts["data_disks"]), (&json!(4), &json!(3)));
    let command = facts["reshape_command"].as_str().unwrap();
    assert!(!command.contains("--backup-file"), "{command}");
    assert!(trial.took().wall.as_secs_f64() >= facts["reshape_seconds"].as_f64().unwrap());
    let after = trial.device().unwrap().size;
    assert!(after.0 > before.0 * 14 / 10, "{before} {after}");
    assert!(trial.teardown().is_empty());
}

#[test]
fn an_array_that_is_not_waited_for_to_the_end_is_undone() {
    let Some(_alone) = layers_here() else { return };
    let before = standing();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    rig.stop_on(Arc::clone(&stop));
    let spec = stack(3, json!({ "array": { "level": 5, "chunk": 65536 } }));
    let mut trial = rig.begin("a", &spec).unwrap();
    let mut progress = |doing: &str, _: f64| {
        if doing.contains("parity") {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let refused = trial.build(true, Bytes(1 << 20), &mut progress).unwrap_err();
    assert_eq!(refused.outcome, Outcome::Cancelled, "{refused}");
    assert!(trial.teardown().is_empty());
    assert_eq!(standing(), before);
}

/// An array as it is left when mdadm is ended while it makes one: the members carry superblocks and are
/// bound, but it never ran, so the kernel tells no UUID of it. Its node.
fn half_made(members: &[String], uuid: &str) -> String {
    let path = |name: &str| format!("/dev/{name}");
    let node = (600..).map(|n| format!("md{n}")).find(|n| !Path::new("/sys/block").join(n).exists()).unwrap();
    let (count, uuid) = (format!("--raid-devices={}", members.len()), format!("--uuid={uuid}"));
    let whole = path("md599");
    let mut create = vec!["--create", &whole, "--config=none", "--run", "--metadata=1.2", "--level=1"];
    create.extend(["--homehost=none", "--bitmap=none", "--assume-clean", &count, &uuid]);
    let paths: Vec<_> = members.iter().map(|name| path(name)).collect();
    create.extend(paths.iter().map(String::as_str));
    common::run("mdadm", &create);
    common::run("mdadm", &["--stop", "--config=none", &whole]);
    fs::write("/sys/module/md_mod/parameters/new_array", &node).unwrap();
    let md = Path::new("/sys/block").join(&node).join("md");
    fs::write(md.join("metadata_version"), "1.2").unwrap();
    for name in members {
        let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
        fs::write(md.join("new_dev"), number.trim()).unwrap();
    }
    let told = |attribute: &str| fs::read_to_string(md.join(attribute)).unwrap_or_default();
    assert_eq!(told("array_state").trim(), "inactive");
    assert!(told("uuid").trim().chars().all(|c| matches!(c, '0' | '-')), "{}", told("uuid"));
    path(&node)
}

#[test]
fn clean_finds_an_array_that_was_made_only_half() {
    let Some(_alone) = layers_here() else { return };
    let before = standing();
    let folder = tempfile::tempdir().unwrap();
    let disks = ["0", "1"].map(|name| {
        let file = folder.path().join(name);
        fs::File::create(&file).unwrap().set_len(32 << 20).unwrap();
        Foreign::attach(&file)
    });
    let leaves = disks.each_ref().map(|disk| disk.path.file_name().unwrap().to_string_lossy().into_owned());
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    half_made(&leaves, uuid);
    assert_eq!(standing().len(), before.len() + 1);
    let state = folder.path().join("dead");
    fs::create_dir_all(state.join("ledger")).unwrap();
    let header = json!({ "fsdyno_ledger": 1, "boot": "another boot", "pid": 1 });
    let entry = json!({ "array": { "uuid": uuid } });
    fs::write(state.join("ledger/trial-x.jsonl"), format!("{header}\n{entry}\n")).unwrap();
    let cleaned = fsdyno_stack::clean(&state);
    assert_eq!((cleaned.undone.len(), cleaned.failed.len()), (1, 0), "{cleaned:?}");
    assert_eq!(standing(), before);
}

/// Builds an array by an mdadm that does not come to its end, and is asked to stop meanwhile, if it is told
/// where; as a test it does nothing.
#[test]
fn cancelled_victim() {
    let Some(folder) = std::env::var_os("FSDYNO_CANCELLED_VICTIM") else { return };
    let folder = Path::new(&folder);
    let mut rig = Rig::open(options(folder)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    rig.stop_on(Arc::clone(&stop));
    let array = json!({ "array": { "level": 1, "resync": "assume_clean" } });
    let mut trial = rig.begin("a", &stack(2, array)).unwrap();
    let bound = folder.join("bound");
    std::thread::spawn(move || {
        while !bound.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let refused = trial.build(true, Bytes(1 << 20), &mut quiet()).unwrap_err();
    println!("outcome {:?} {refused}", refused.outcome);
    println!("teardown {:?}", trial.teardown());
}

#[test]
fn an_array_whose_making_is_cancelled_is_undone_though_it_never_ran() {
    let Some(_alone) = layers_here() else { return };
    let before = standing();
    let folder = tempfile::tempdir().unwrap();
    // An mdadm that stops short of starting the array, and waits there.
    let mdadm = fsdyno_stack::find_program("mdadm").unwrap().display().to_string();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --create ] || exec {mdadm} \"$@\"\n\
         {mdadm} \"$@\" && {mdadm} --stop --config=none \"$2\" || exit 1\n\
         name=${{2#/dev/}}; cd /sys/block\n[ -e $name ] || echo $name > /sys/module/md_mod/parameters/new_array\n\
         echo 1.2 > $name/md/metadata_version\n\
         for device; do case $device in /dev/loop*)\n\
         cat /sys/class/block/${{device#/dev/}}/dev > $name/md/new_dev;; esac; done\n\
         cat $name/md/array_state > {0}/new; mv {0}/new {0}/bound; exec sleep 1000\n",
        folder.path().display()
    );
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("mdadm"), script).unwrap();
    common::run("chmod", &["755", &tools.join("mdadm").to_string_lossy()]);
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cancelled_victim", "--nocapture"]).env("PATH", path);
    let output = command.env("FSDYNO_CANCELLED_VICTIM", folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("bound")).unwrap().trim(), "inactive");
    assert!(said.contains("outcome Cancelled") && said.contains("teardown []"), "{said}");
    assert_eq!(standing(), before);
}

#[test]
fn a_volume_group_whose_making_is_cancelled_is_undone() {
    let Some(_alone) = layers_here() else { return };
    let before = standing();
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    rig.stop_on(Arc::clone(&stop));
    let mut trial = rig.begin("a", &stack(2, json!({ "lvm": {} }))).unwrap();
    // One physical volume is there, and no group.
    let mut progress = |doing: &str, share: f64| {
        if doing.contains("volumes") && share > 0.0 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let refused = trial.build(true, Bytes(1 << 20), &mut progress).unwrap_err();
    assert_eq!(refused.outcome, Outcome::Cancelled, "{refused}");
    assert!(trial.teardown().is_empty());
    assert_eq!(standing(), before);
}

/// Builds an array with a volume and waits to be killed, if it is told where; as a test it does nothing.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os("FSDYNO_ARRAY_VICTIM") else { return };
    let mut rig = Rig::open(options(Path::new(&folder))).unwrap();
    let array = json!({ "array": { "level": 1, "resync": "assume_clean" }, "lvm": {} });
    let mut trial = rig.begin("a", &stack(2, array)).unwrap();
    build(&mut trial);
    println!("built");
    loop {
        std::thread::park();
    }
}

#[test]
fn what_a_killed_agent_left_is_taken_down_from_above_to_below() {
    let Some(_alone) = layers_here() else { return };
    let before = standing();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "victim", "--nocapture"]).env("FSDYNO_ARRAY_VICTIM", folder.path());
    let mut victim = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("built")));
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(standing().len(), before.len() + 2, "the kernel keeps an array and a volume");
    let rig = Rig::open(options(folder.path())).unwrap();
    let cleaned = rig.cleaned().clone();
    assert_eq!((cleaned.left.len(), cleaned.failed.len()), (0, 0), "{cleaned:?}");
    assert!(cleaned.undone.iter().any(|what| what.contains("stopped the array")), "{cleaned:?}");
    assert!(cleaned.undone.iter().any(|what| what.contains("removed the volume group")), "{cleaned:?}");
    drop(rig);
    assert_eq!(standing(), before);
    assert!(bound_below(folder.path()).is_empty() && leftovers(folder.path()).is_empty());
}
