//! What the tests on real devices share.
#![allow(dead_code, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_filesystems::{CommandLine, MountPlan};
use fsdyno_spec::trial::{Backing, Device, FileDevice, Stack};
use fsdyno_spec::units::Bytes;
use fsdyno_stack::{Rig, RigOptions};

/// Skips a test visibly where it cannot run.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: making devices and mounting needs root");
            return;
        }
    };
}

pub fn options(folder: &Path) -> RigOptions {
    RigOptions { state: folder.join("state"), work: folder.join("work"), ..RigOptions::default() }
}

pub fn rig(folder: &Path) -> Rig {
    Rig::open(options(folder)).unwrap()
}

pub fn device(size: Bytes, backing: Backing) -> FileDevice {
    FileDevice { size, backing, logical_block_size: Bytes(512), folder: None, count: 1 }
}

pub fn stack(size: Bytes, backing: Backing) -> Stack {
    Stack { devices: vec![Device::File(device(size, backing))], ..Stack::default() }
}

pub fn directory(path: &Path) -> Stack {
    Stack { directory: Some(path.to_path_buf()), ..Stack::default() }
}

pub fn line(program: &str, args: &[&str]) -> CommandLine {
    CommandLine { program: program.into(), args: args.iter().map(|a| a.to_string()).collect() }
}

pub fn plan(fstype: &str, source: &Path) -> MountPlan {
    MountPlan { fstype: fstype.into(), source: source.to_string_lossy().into_owned(), ..MountPlan::default() }
}

pub fn quiet() -> impl FnMut(&str, f64) {
    |_: &str, _| {}
}

/// Loop devices that are bound to a file below `folder`, as the kernel lists them.
pub fn bound_below(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let names = fs::read_dir("/sys/block").unwrap().map(|e| e.unwrap().path());
    names
        .filter_map(|path| fs::read_to_string(path.join("loop/backing_file")).ok())
        .filter(|file| file.contains(&folder))
        .collect()
}

/// All that is left below a folder, for "nothing is left".
pub fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in ["work", "state/ledger"] {
        for entry in fs::read_dir(folder.join(name)).into_iter().flatten() {
            found.push(entry.unwrap().path());
        }
    }
    found
}

pub fn run(program: &str, args: &[&str]) {
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A loop device that is somebody else's.
pub struct Foreign {
    pub path: PathBuf,
}

impl Foreign {
    pub fn attach(file: &Path) -> Self {
        let out = Command::new("losetup").args(["-f", "--show"]).arg(file).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Self { path: String::from_utf8(out.stdout).unwrap().trim().into() }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).output();
    }
}

/// Unmounts. Programs that other tests are starting may hold its files for a moment.
pub fn unmount(point: &Path) {
    let attempt = || rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty());
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(errno) = attempt() {
        assert!(
            errno == rustix::io::Errno::BUSY && Instant::now() < deadline,
            "{}: {errno}",
            point.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
