//! Real disks, played by loop devices with a link below /dev/disk/by-id: each reason to refuse, and
//! what happens to one that is given up.

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Foreign, leftovers, line, options, plan, quiet};
use fsdyno_spec::event::{Built, Refusal};
use fsdyno_spec::trial::{Device, DiskDevice, Settings, Stack};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Refused, Rig, RigOptions, clean};

const SIZE: Bytes = Bytes::mib(64);
const BY_ID: &str = "/dev/disk/by-id";
const FOLDERS: [&str; 2] = ["/dev/disk", BY_ID];
/// Links that stand, and which of the folders these tests made.
static LINKS: Mutex<(usize, [bool; 2])> = Mutex::new((0, [false; 2]));

/// One test at a time: what another one forks holds our descriptors, and with them a disk or a rig's
/// lock, until it execs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A blank loop device of somebody's with a stable name.
struct TestDisk {
    link: PathBuf,
    foreign: Foreign,
    folder: tempfile::TempDir,
}

impl TestDisk {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        fs::File::create(&file).unwrap().set_len(SIZE.0).unwrap();
        let foreign = Foreign::attach(&file);
        let link = Path::new(BY_ID).join(format!("fsdyno-test-{name}-{}", std::process::id()));
        let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
        for (n, folder) in FOLDERS.iter().enumerate() {
            links.1[n] |= fs::create_dir(folder).is_ok();
        }
        symlink(&foreign.path, &link).unwrap();
        links.0 += 1;
        let disk = Self { link, foreign, folder };
        // Attributes survive on a loop number: whoever had it before may have left some.
        fs::write(disk.queue("scheduler"), "none").unwrap();
        disk
    }

    fn path(&self) -> String {
        self.foreign.path.to_string_lossy().into_owned()
    }

    fn queue(&self, attribute: &str) -> PathBuf {
        Path::new("/sys/block").join(self.foreign.path.file_name().unwrap()).join("queue").join(attribute)
    }

    fn options(&self) -> RigOptions {
        RigOptions { destroy: vec![self.link.clone()], ..options(self.folder.path()) }
    }

    fn stack(&self) -> Stack {
        Stack { devices: vec![Device::Disk(DiskDevice { path: self.link.clone() })], ..Stack::default() }
    }

    /// What a trial on it is told at the start.
    fn ask(&self) -> Result<Vec<Built>, Refused> {
        let mut rig = Rig::open(self.options()).unwrap();
        let mut trial = rig.begin("t", &self.stack()).unwrap();
        let answer = trial.build(true, Bytes(0), &mut quiet());
        assert!(trial.teardown().is_empty());
        answer
    }

    fn refused(&self, why: &str) {
        let refused = self.ask().unwrap_err();
        assert_eq!(refused.refusal, Refusal::Unsafe, "{refused}");
        assert!(refused.reason.message.contains(why), "{refused}");
        assert!(refused.reason.advice.is_some());
    }

    fn signature(&self) -> String {
        let out =
            Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE", &self.path()]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_string()
    }

    fn start(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        fs::File::open(&self.foreign.path).unwrap().read_exact(&mut bytes).unwrap();
        bytes
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = fs::remove_file(&self.link);
        links.0 -= 1;
        for (n, folder) in FOLDERS.iter().enumerate().rev() {
            if links.0 == 0 && links.1[n] {
                let _ = fs::remove_dir(folder);
                links.1[n] = false;
            }
        }
    }
}

#[test]
fn a_blank_disk_named_twice_is_used_and_left_blank() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("blank");
    fs::write(disk.queue("read_ahead_kb"), "64").unwrap();
    let mut rig = Rig::open(disk.options()).unwrap();
    for n in 0..2 {
        let mut spec = disk.stack();
        spec.settings = Settings { scheduler: Some("mq-deadline".into()), ..Settings::default() };
        let mut trial = rig.begin(&format!("t{n}"), &spec).unwrap();
        trial.build(true, Bytes::mib(16), &mut quiet()).unwrap();
        let device = trial.device().unwrap().clone();
        assert!(!device.ours && device.size == SIZE);
        let taken = Command::new("mkfs.ext4").args(["-q", &disk.path()]).output().unwrap();
        assert!(!taken.status.success(), "nobody else can take the disk meanwhile");
        let uuid = trial.claim_uuid().unwrap();
        let mkfs = line("mkfs.ext4", &["-q", "-U", &uuid, &disk.path()]);
        let out = trial.tool(&mkfs, &AtomicBool::new(false), None).unwrap();
        assert_eq!(out.exit, Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        trial.mount(&plan("ext4", &device.path)).unwrap();
        fs::write(trial.data_root().unwrap().join("x"), "x").unwrap();
        trial.unmount().unwrap();
        assert_eq!(disk.signature(), "ext4");
        assert!(trial.teardown().is_empty());
        assert_eq!(disk.signature(), "");
        assert!(fs::read_to_string(disk.queue("scheduler")).unwrap().contains("[none]"));
        assert_eq!(fs::read_to_string(disk.queue("read_ahead_kb")).unwrap().trim(), "64");
    }
    drop(rig);
    assert!(leftovers(disk.folder.path()).is_empty());
}

#[test]
fn a_disk_that_only_the_plan_names_is_refused_and_the_command_shown() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("once");
    let mut rig = Rig::open(options(disk.folder.path())).unwrap();
    let mut trial = rig.begin("t", &disk.stack()).unwrap();
    let refused = trial.build(true, Bytes(0), &mut quiet()).unwrap_err();
    assert_eq!(refused.refusal, Refusal::Unsafe);
    assert!(refused.reason.advice.unwrap().contains(&format!("--destroy {}", disk.link.display())));
}

#[test]
fn a_name_that_moves_between_disks_is_refused_even_if_given_twice() {
    needs_root!();
    let _alone = alone();
    let mut disk = TestDisk::new("name");
    let link = disk.link.clone();
    disk.link = disk.foreign.path.clone();
    disk.refused("is not a link directly below");
    disk.link = link;
}

#[test]
fn a_disk_with_anything_foreign_on_it_is_refused_untouched() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("foreign");
    for tool in ["mkfs.ext4", "mkswap"] {
        common::run(tool, &["-q", &disk.path()][usize::from(tool == "mkswap")..]);
        let before = disk.start();
        disk.refused("which fsdyno did not make");
        assert_eq!(disk.start(), before);
        common::run("wipefs", &["--all", "--quiet", &disk.path()]);
    }
    // A partition table: one entry (type 0x83, from sector 2048, 32768 sectors) and the mark.
    let mut table = [0u8; 512];
    table[450] = 0x83;
    table[454..458].copy_from_slice(&2048u32.to_le_bytes());
    table[458..462].copy_from_slice(&32768u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&disk.foreign.path, table).unwrap();
    disk.refused("dos");
}

#[test]
fn a_partition_is_used_unless_its_disk_carries_anything_live() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("partition");
    let whole = disk.foreign.path.clone();
    let image = disk.folder.path().join("disk.img");
    let mut table = [0u8; 512];
    for (n, start) in [2048u32, 32768].into_iter().enumerate() {
        let entry = &mut table[446 + 16 * n..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&16384u32.to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&disk.foreign.path, table).unwrap();
    common::run("losetup", &["-d", &disk.path()]);
    common::run("losetup", &["-P", &disk.path(), &image.to_string_lossy()]);
    // Told to the kernel, which may read no partition tables.
    for (n, start) in [("1", "2048"), ("2", "32768")] {
        let part = format!("{}p{n}", disk.path());
        if !Path::new(&part).exists() {
            common::run("addpart", &[&disk.path(), n, start, "16384"]);
        }
    }
    disk.refused("has partitions");

    let [first, second] = [1, 2].map(|n| PathBuf::from(format!("{}p{n}", whole.display())));
    fs::remove_file(&disk.link).unwrap();
    symlink(&first, &disk.link).unwrap();
    disk.ask().unwrap();
    common::run("mkfs.ext4", &["-q", &second.to_string_lossy()]);
    let point = disk.folder.path().join("point");
    fs::create_dir(&point).unwrap();
    common::run("mount", &[&second.to_string_lossy(), &point.to_string_lossy()]);
    let refused =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disk.refused("shares a disk with")));
    common::unmount(&point);
    refused.unwrap();
    common::run("mkfs.ext4", &["-q", &first.to_string_lossy()]);
    disk.refused("which fsdyno did not make");
}

#[test]
fn a_mounted_disk_is_refused() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("mounted");
    common::run("mkfs.ext4", &["-q", &disk.path()]);
    let point = disk.folder.path().join("point");
    fs::create_dir(&point).unwrap();
    common::run("mount", &[&disk.path(), &point.to_string_lossy()]);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disk.refused("mounted on")));
    common::unmount(&point);
    refused.unwrap();
}

#[test]
fn a_disk_in_use_as_swap_is_refused() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("swap");
    common::run("mkswap", &[&disk.path()]);
    if !Command::new("swapon").arg(disk.path()).status().unwrap().success() {
        eprintln!("SKIPPED: this kernel does not swap on loop devices");
        return;
    }
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disk.refused("swap")));
    common::run("swapoff", &[&disk.path()]);
    refused.unwrap();
}

#[test]
fn a_disk_under_a_loop_device_is_refused() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("backing");
    let upper = Foreign::attach(&disk.foreign.path);
    disk.refused(&format!("backing of {}", upper.path.file_name().unwrap().to_string_lossy()));
}

#[test]
fn a_disk_that_somebody_holds_is_refused() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("held");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::EXCL;
    let held = rustix::fs::open(&disk.foreign.path, flags, rustix::fs::Mode::empty()).unwrap();
    disk.refused("cannot be taken");
    drop(held);
    disk.ask().unwrap();
}

#[test]
fn a_disk_that_changed_between_trials_is_refused() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("changed");
    let other = TestDisk::new("changed-other");
    let mut rig = Rig::open(disk.options()).unwrap();
    let mut trial = rig.begin("a", &disk.stack()).unwrap();
    trial.build(true, Bytes(0), &mut quiet()).unwrap();
    assert!(trial.teardown().is_empty());
    fs::remove_file(&disk.link).unwrap();
    symlink(&other.foreign.path, &disk.link).unwrap();
    let mut trial = rig.begin("b", &disk.stack()).unwrap();
    let refused = trial.build(true, Bytes(0), &mut quiet()).unwrap_err();
    assert!(refused.reason.message.contains("another disk than before"), "{refused}");
}

/// Makes a file system of ours on `disk`, then runs `script` where a tool would run: in the moment in
/// which the disk is not held. What the trial says of that, and of the end.
fn disturbed(disk: &TestDisk, script: &str) -> (Result<(), String>, Vec<String>) {
    let mut rig = Rig::open(disk.options()).unwrap();
    let mut trial = rig.begin("t", &disk.stack()).unwrap();
    trial.build(true, Bytes(0), &mut quiet()).unwrap();
    let uuid = trial.claim_uuid().unwrap();
    let mkfs = line("mkfs.ext4", &["-q", "-U", &uuid, &disk.path()]);
    assert_eq!(trial.tool(&mkfs, &AtomicBool::new(false), None).unwrap().exit, Some(0));
    let out = trial.tool(&line("sh", &["-ec", script]), &AtomicBool::new(false), None);
    let said = out.map(|out| assert_eq!(out.exit, Some(0), "{out:?}")).map_err(|failure| failure.to_string());
    (said, trial.teardown())
}

#[test]
fn a_link_that_moved_while_a_tool_had_the_disk_leads_to_no_write() {
    needs_root!();
    let _alone = alone();
    let (disk, other) = (TestDisk::new("moved"), TestDisk::new("moved-other"));
    // A copy of ours: only its identity says that it is another disk.
    let script = format!(
        "dd if={ours} of={other} bs=1M status=none; ln -sfn {other} {link}",
        ours = disk.path(),
        other = other.path(),
        link = disk.link.display()
    );
    let (said, failures) = disturbed(&disk, &script);
    assert!(said.unwrap_err().contains("another disk than before"));
    assert!(failures.iter().any(|f| f.contains("another disk than before")), "{failures:?}");
    assert_eq!((disk.signature(), other.signature()), ("ext4".into(), "ext4".into()));
    // The link is ours again: the ledger knows what to do.
    fs::remove_file(&disk.link).unwrap();
    symlink(&disk.foreign.path, &disk.link).unwrap();
    assert_eq!(clean(&disk.folder.path().join("state")).undone.len(), 1);
    assert_eq!((disk.signature(), other.signature()), (String::new(), "ext4".into()));
}

#[test]
fn a_node_that_became_another_disk_while_a_tool_had_it_is_not_written_to() {
    needs_root!();
    let _alone = alone();
    let (disk, other) = (TestDisk::new("node"), TestDisk::new("node-other"));
    let number = |disk: &TestDisk| {
        use std::os::unix::fs::MetadataExt;
        let number = fs::metadata(&disk.foreign.path).unwrap().rdev();
        format!("{} {}", rustix::fs::major(number), rustix::fs::minor(number))
    };
    let (ours, theirs) = (number(&disk), number(&other));
    let path = disk.path();
    let script = format!(
        "dd if={path} of={other} bs=1M status=none; rm {path}; mknod -m 600 {path} b {theirs}",
        other = other.path()
    );
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturbed(&disk, &script)));
    fs::remove_file(&path).unwrap();
    common::run("sh", &["-c", &format!("mknod -m 600 {path} b {ours}")]);
    let (said, failures) = result.unwrap();
    assert!(said.unwrap_err().contains("its device number changed"));
    assert!(!failures.is_empty());
    assert_eq!((disk.signature(), other.signature()), ("ext4".into(), "ext4".into()));
}

#[test]
fn what_somebody_made_while_a_tool_had_the_disk_is_neither_wiped_nor_made_over() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("midway");
    let theirs = format!("mkfs.ext4 -q -F -L theirs {}", disk.path());
    let (said, failures) = disturbed(&disk, &theirs);
    said.unwrap();
    assert!(failures.iter().any(|f| f.contains("label theirs")), "{failures:?}");
    assert_eq!(disk.signature(), "ext4");
    common::run("wipefs", &["--all", "--quiet", &disk.path()]);
    fs::remove_dir_all(disk.folder.path().join("state/ledger")).unwrap();

    let mut rig = Rig::open(disk.options()).unwrap();
    let mut trial = rig.begin("t", &disk.stack()).unwrap();
    trial.build(true, Bytes(0), &mut quiet()).unwrap();
    assert_eq!(
        trial.tool(&line("sh", &["-c", &theirs]), &AtomicBool::new(false), None).unwrap().exit,
        Some(0)
    );
    assert!(trial.claim_uuid().unwrap_err().to_string().contains("label theirs"), "mkfs may be forced then");
    assert!(trial.teardown().is_empty());
    assert_eq!(disk.signature(), "ext4");
}

/// Makes a file system of ours and dies, if it is told where; as a test it does nothing.
#[test]
fn victim() {
    let Some(link) = std::env::var_os("FSDYNO_DISK_VICTIM").map(PathBuf::from) else { return };
    let folder = PathBuf::from(std::env::var_os("FSDYNO_DISK_FOLDER").unwrap());
    let mut rig = Rig::open(RigOptions { destroy: vec![link.clone()], ..options(&folder) }).unwrap();
    let mut spec = Stack { devices: vec![Device::Disk(DiskDevice { path: link })], ..Stack::default() };
    spec.settings.scheduler = Some("mq-deadline".into());
    let mut trial = rig.begin("t", &spec).unwrap();
    trial.build(true, Bytes(0), &mut quiet()).unwrap();
    let uuid = trial.claim_uuid().unwrap();
    let path = trial.device().unwrap().path.clone();
    let mkfs = line("mkfs.ext4", &["-q", "-U", &uuid, &path.to_string_lossy()]);
    assert_eq!(trial.tool(&mkfs, &AtomicBool::new(false), None).unwrap().exit, Some(0));
    trial.mount(&plan("ext4", &path)).unwrap();
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

fn run_victim(disk: &TestDisk) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .envs([("FSDYNO_DISK_VICTIM", disk.link.as_path()), ("FSDYNO_DISK_FOLDER", disk.folder.path())])
        .status()
        .unwrap();
    assert!(!status.success());
    assert_eq!(disk.signature(), "ext4");
}

#[test]
fn what_a_killed_agent_left_on_a_disk_is_wiped_and_its_queue_restored() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("killed");
    run_victim(&disk);
    let cleaned = clean(&disk.folder.path().join("state"));
    assert!(cleaned.failed.is_empty() && cleaned.left.is_empty(), "{cleaned:?}");
    assert_eq!(disk.signature(), "");
    assert!(fs::read_to_string(disk.queue("scheduler")).unwrap().contains("[none]"));
    assert!(leftovers(disk.folder.path()).is_empty());
}

#[test]
fn what_of_ours_is_in_use_is_told_as_a_failure_and_undone_by_the_next_try() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("busy");
    run_victim(&disk);
    let holder = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(disk.path()).unwrap();
    let cleaned = clean(&disk.folder.path().join("state"));
    assert_eq!((cleaned.failed.len(), cleaned.left.len()), (1, 0), "{cleaned:?}");
    assert_eq!(disk.signature(), "ext4");
    drop(holder);
    let cleaned = clean(&disk.folder.path().join("state"));
    assert!(cleaned.failed.is_empty() && cleaned.left.is_empty(), "{cleaned:?}");
    assert_eq!(disk.signature(), "");
}

#[test]
fn a_file_system_that_somebody_made_since_is_neither_wiped_nor_taken() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("since");
    run_victim(&disk);
    common::run("mkfs.ext4", &["-q", "-F", "-L", "theirs", &disk.path()]);
    let before = disk.start();
    let cleaned = clean(&disk.folder.path().join("state"));
    assert_eq!(cleaned.left.len(), 1, "{cleaned:?}");
    disk.refused("label theirs");
    assert_eq!(disk.start(), before);
}

#[test]
fn our_own_file_system_is_recognised_when_the_ledger_is_lost() {
    needs_root!();
    let _alone = alone();
    let disk = TestDisk::new("own");
    run_victim(&disk);
    fs::remove_dir_all(disk.folder.path().join("state/ledger")).unwrap();
    disk.ask().unwrap();
    assert_eq!(disk.signature(), "");
}
