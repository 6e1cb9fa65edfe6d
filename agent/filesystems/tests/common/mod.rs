//! What the tests of this crate share: sparse devices in a folder of their own, tools, mounts that
//! never outlive the test.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fsdyno_filesystems::{
    CommandLine, FileSystem, Geometry, MountPlan, Options, Target, Told, spell_parameter,
};
use fsdyno_spec::record::Facts;
use fsdyno_spec::units::Bytes;
use serde_json::{Map, Value};

/// A UUID where nothing is mounted.
pub const UUID: &str = "5eed0000-1234-4abc-8def-0123456789ab";

/// A sparse file in a folder that goes with it.
pub struct Image {
    pub folder: tempfile::TempDir,
    pub path: PathBuf,
    pub size: Bytes,
    /// What mkfs is asked to give it. The kernel refuses to mount two of one UUID, and tests run side
    /// by side.
    pub uuid: String,
}

impl Image {
    pub fn new(size: Bytes) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("device");
        File::create(&path).and_then(|file| file.set_len(size.0)).expect("a sparse file");
        let uuid =
            std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a UUID").trim().to_string();
        Self { folder, path, size, uuid }
    }

    pub fn name(&self) -> &str {
        self.path.to_str().expect("a plain path")
    }

    pub fn open(&self) -> File {
        File::open(&self.path).expect("the image")
    }
}

/// Runs a command; none, and a visible line, if its program is not installed.
pub fn run(command: &CommandLine) -> Option<Output> {
    let Some(program) = find(&command.program) else {
        eprintln!("SKIPPED: {} is not installed", command.program);
        return None;
    };
    let output = Command::new(program).args(&command.args).stdin(Stdio::null()).output();
    Some(output.expect("the program starts"))
}

pub fn find(program: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
}

/// Options as a plan gives them.
pub fn given(options: Value) -> BTreeMap<String, Value> {
    let Value::Object(map) = options else { return BTreeMap::new() };
    map.into_iter().collect::<Map<_, _>>().into_iter().collect()
}

/// Makes a file system on a sparse file; none if the tool is missing.
pub fn make(fs: &FileSystem, options: &Options, size: Bytes) -> Option<Image> {
    make_told(fs, options, size, Told::Nothing)
}

/// The same, with what mkfs is told of an array below.
pub fn make_told(fs: &FileSystem, options: &Options, size: Bytes, told: Told<'_>) -> Option<Image> {
    let image = Image::new(size);
    let target = Target { geometry: told, ..Target::plain(image.name(), size, &image.uuid, true) };
    let command = fs.mkfs(options, &target).expect("a command line");
    let output = run(&command)?;
    let verdict = fs.exit_meaning(fsdyno_filesystems::Role::Mkfs, output.status.code().unwrap_or(-1));
    assert!(verdict.ok, "{}: {}", command.shell(), String::from_utf8_lossy(&output.stderr));
    Some(image)
}

/// A mounted image; unmounted when dropped.
pub struct Mounted {
    pub target: PathBuf,
    /// Kernel name of the loop device; empty for file systems without one.
    pub device: String,
    pub fstype: String,
    pub super_options: String,
    pub mount_options: String,
}

impl Mounted {
    /// Mounts by the very command that `--shell` shows, with `loop` for the file. The error is what
    /// mount printed.
    pub fn new(plan: &MountPlan, folder: &Path, looped: bool) -> Result<Self, String> {
        let target = folder.join("mnt");
        std::fs::create_dir_all(&target).expect("a mount point");
        let point = target.to_str().expect("a plain path");
        if plan.helper.is_some() {
            helped(plan, point)?;
            return Ok(Self::at(target));
        }
        let mut command = plan.shell(point);
        if looped {
            command = command.replacen("mount ", "mount -o loop ", 1);
        }
        let output = Command::new("/bin/sh").args(["-c", &command]).output().expect("a shell");
        if !output.status.success() {
            return Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(Self::at(target))
    }

    /// What somebody mounted there.
    pub fn at(target: PathBuf) -> Self {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let line = table.lines().rfind(|line| line.split(' ').nth(4) == target.to_str()).expect("our mount");
        let (left, right) = line.split_once(" - ").expect("a line of mountinfo");
        let right: Vec<_> = right.split(' ').collect();
        Self {
            device: right[1].trim_start_matches("/dev/").to_string(),
            fstype: right[0].to_string(),
            super_options: right[2].to_string(),
            mount_options: left.split(' ').nth(5).expect("mount options").to_string(),
            target,
        }
    }
}

/// Mounts by a helper that stays: on a loop device, which goes with the mount, as it takes a file for
/// something else than a device.
fn helped(plan: &MountPlan, point: &str) -> Result<(), String> {
    let output = Command::new("losetup").args(["--find", "--show", &plan.source]).output().expect("losetup");
    let device = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let command = plan.shell(point).replacen(&plan.source, &device, 1);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = shell.status().expect("a shell");
    let mounted = || {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        table.lines().any(|line| line.split(' ').nth(4) == Some(point))
    };
    for _ in 0..500 {
        if mounted() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // It stays as long as somebody has it open.
    Command::new("losetup").args(["-d", &device]).status().expect("losetup");
    if mounted() { Ok(()) } else { Err(format!("{command}: no mount ({status})")) }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Another process may look at the mount for a moment.
        for _ in 0..50 {
            let mounted = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            if !mounted.lines().any(|line| line.split(' ').nth(4) == self.target.to_str()) {
                return;
            }
            let _ = Command::new("umount").arg(&self.target).stderr(Stdio::null()).status();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} is still mounted", self.target.display());
    }
}

impl Mounted {
    /// Remounts with these parameters, and reads again what the kernel shows.
    pub fn remount(&mut self, parameters: &[(String, Option<String>)]) -> Result<(), String> {
        let words: Vec<_> = parameters.iter().map(spell_parameter).collect();
        let options = format!("remount,{}", words.join(","));
        let output = Command::new("mount").args(["-o", &options]).arg(&self.target).output().expect("mount");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let line =
            table.lines().rfind(|line| line.split(' ').nth(4) == self.target.to_str()).expect("our mount");
        let (_, right) = line.split_once(" - ").expect("a line of mountinfo");
        self.super_options = right.split(' ').nth(2).expect("super options").to_string();
        Ok(())
    }

    /// Whether the device can discard; says so if not. A loop device keeps what an earlier user set.
    pub fn can_discard(&self) -> bool {
        let path = format!("/sys/block/{}/queue/discard_max_bytes", self.device);
        let can = std::fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
        if !can {
            eprintln!("SKIPPED: somebody has turned discards of {} off", self.device);
        }
        can
    }
}

/// Whether mounts are possible here; says why not.
pub fn can_mount() -> bool {
    let root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|s| s.lines().any(|l| l.starts_with("CapEff:") && !l.ends_with("0000000000000000")));
    if !root {
        eprintln!("SKIPPED: mounting needs root");
    }
    root && Path::new("/dev/loop-control").exists()
}

/// Whether the kernel has it; says so if not.
pub fn kernel_has(fs: &FileSystem) -> bool {
    let list = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = list.lines().any(|line| line.split_whitespace().last() == Some(fs.fstype));
    if !has {
        eprintln!("SKIPPED: this kernel has no {}", fs.name);
    }
    has
}

/// RAID 5 of four members with chunks of 64 KiB: 16 and 48 blocks, 128 and 384 sectors.
pub const STRIPE: Geometry = Geometry { chunk: Bytes::kib(64), data_disks: 3 };

pub fn row(name: &str) -> &'static FileSystem {
    fsdyno_filesystems::find(name).expect("a row")
}

pub fn words(shown: &str) -> Vec<String> {
    shown.split(',').map(ToString::to_string).collect()
}

pub fn facts(value: Value) -> Facts {
    serde_json::from_value(value).expect("facts")
}
