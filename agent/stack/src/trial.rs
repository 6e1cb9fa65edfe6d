//! One trial's stack, from the bare device to the mount point and back. Everything that a trial
//! creates is created here, after the ledger knows it, and undone by [`TrialStack::teardown`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fsdyno_filesystems::{CommandLine, MountPlan};
use fsdyno_spec::event::{Built, Refusal};
use fsdyno_spec::trial::{Backing, Device, FileDevice, Settings, Stack};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use crate::backing::{BackingFile, wipe_signatures};
use crate::disk::Disk;
use crate::failure::{Failure, Refused};
use crate::folder::{self, WorkFolder};
use crate::identity::{nonce, process_start};
use crate::ledger::{Entry, Ledger};
use crate::loopdev;
use crate::mount::{self, Mounted};
use crate::rig::Rig;
use crate::settings::{self, Facts, LOOP_DEFAULTS};
use crate::sysfs::{self, BlockDevice};
use crate::tool::{self, ToolOutput};

/// How long a loop device may take to let its file go.
const AUTOCLEAR: Duration = Duration::from_secs(5);

/// The stack of one trial.
#[derive(Debug)]
pub struct TrialStack<'rig> {
    rig: &'rig mut Rig,
    ledger: Option<Ledger>,
    trial: String,
    spec: Stack,
    folder: Option<WorkFolder>,
    loop_device: Option<LoopDevice>,
    /// Link of the real disk in use; the rig holds it.
    disk: Option<PathBuf>,
    device: Option<BlockDevice>,
    mounted: Option<Mounted>,
    /// Read-ahead that was asked for, to be put on each new mount.
    read_ahead: Option<Bytes>,
    owns_superblock: bool,
    took: Duration,
}

/// A bound loop device; it lives as long as `device` is open.
#[derive(Debug)]
struct LoopDevice {
    number: u32,
    device: File,
    backing: BackingFile,
}

impl<'rig> TrialStack<'rig> {
    pub(crate) fn new(rig: &'rig mut Rig, ledger: Ledger, trial: &str, spec: Stack) -> Self {
        Self {
            rig,
            ledger: Some(ledger),
            trial: trial.to_string(),
            spec,
            folder: None,
            loop_device: None,
            disk: None,
            device: None,
            mounted: None,
            read_ahead: None,
            owns_superblock: false,
            took: Duration::ZERO,
        }
    }

    /// Makes the stack up to, but not with, the file system: the device with its queue reset and
    /// the settings applied and proved; or the work folder in the given directory. `needs_device`
    /// is false for file systems in memory, which take none of the devices. `minimum` is the
    /// smallest device that the file system's mkfs takes. `progress` is told what is being done and
    /// the share that is done.
    ///
    /// # Errors
    /// A refusal with advice; [`TrialStack::teardown`] undoes what stood by then.
    pub fn build(
        &mut self,
        needs_device: bool,
        minimum: Bytes,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Vec<Built>, Refused> {
        if let Some(directory) = self.spec.directory.clone() {
            return Ok(vec![self.build_directory(&directory)?]);
        }
        self.folder = Some(self.make_folder(&self.rig.options.work.clone())?);
        if !needs_device {
            return Ok(Vec::new());
        }
        let [device] = self.spec.devices.as_slice() else {
            let message = format!("a stack has one device, not {}", self.spec.devices.len());
            return Err(Refused::new(Refusal::BadRequest, message, "give `stack.devices` one entry"));
        };
        let device = device.clone();
        let facts = match &device {
            Device::File(file) => self.build_loop(file, minimum, progress)?,
            Device::Disk(disk) => self.build_disk(&disk.path, minimum)?,
        };
        let settings = self.spec.settings.clone();
        let applied = self.set(&settings).map_err(refuse)?;
        let mut settings = self.device.as_ref().map(|d| settings::queue_facts(&d.disk())).unwrap_or_default();
        settings.extend(applied);
        Ok(vec![Built { part: "device".into(), facts }, Built { part: "settings".into(), facts: settings }])
    }

    fn ledger(&mut self) -> io::Result<&mut Ledger> {
        self.ledger.as_mut().ok_or_else(|| io::Error::other("the trial is over"))
    }

    fn make_folder(&mut self, parent: &Path) -> Result<WorkFolder, Refused> {
        let made =
            nonce().and_then(|nonce| WorkFolder::make(self.ledger()?, parent, &format!("fsdyno-{nonce}")));
        made.map_err(|error| Refused::io("cannot make a folder in", parent, &error))
    }

    fn build_directory(&mut self, directory: &Path) -> Result<Built, Refused> {
        if !self.spec.settings.is_empty() {
            return Err(Refused::new(
                Refusal::BadRequest,
                "kernel settings of a directory's device belong to its owner and are not changed",
                "leave `stack.settings` out",
            ));
        }
        let directory = folder::offered(directory)?;
        let folder = self.make_folder(&directory)?;
        let mut facts = Facts::from([
            ("directory".to_string(), json!(directory)),
            ("folder".to_string(), json!(folder.path)),
            ("disks".to_string(), json!(sysfs::disks_under(&directory))),
        ]);
        // The mount whose point is the longest prefix, the latest of equals, serves the directory.
        let mounts = crate::mountinfo::read().unwrap_or_default();
        let below = mounts.iter().filter(|m| directory.starts_with(&m.point));
        if let Some(mount) = below.max_by_key(|m| m.point.as_os_str().len()) {
            facts.insert("fstype".into(), json!(mount.fstype));
            facts.insert("source".into(), json!(mount.source));
            facts.insert("mount_point".into(), json!(mount.point));
            facts.insert("mount_options".into(), json!(mount.options));
            facts.insert("super_options".into(), json!(mount.super_options));
        }
        self.folder = Some(folder);
        Ok(Built { part: "directory".into(), facts })
    }

    fn build_loop(
        &mut self,
        spec: &FileDevice,
        minimum: Bytes,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Facts, Refused> {
        check_size(spec.size, minimum)?;
        let block = spec.logical_block_size.0;
        if !block.is_power_of_two()
            || !(512..=65536).contains(&block)
            || !spec.size.0.is_multiple_of(block.max(4096))
        {
            return Err(Refused::new(
                Refusal::BadRequest,
                format!("a device of {} cannot have blocks of {}", spec.size, spec.logical_block_size),
                "use 512 or 4096 byte blocks and a size that is a multiple of 4 KiB",
            ));
        }
        let Some(ledger) = self.ledger.as_mut() else {
            return Err(Refused::environment("the trial is over", "begin another"));
        };
        let (backing, reused) = self.rig.take_file(ledger, spec, progress)?;
        let fail = |error: io::Error| {
            Refused::environment(
                format!("cannot make a loop device: {error}"),
                "the kernel needs the loop driver (5.8 or later), and the agent CAP_SYS_ADMIN",
            )
        };
        let token = self.token().map_err(fail)?;
        let entry =
            Entry::Loop { token: token.clone(), backing: backing.identity, name: backing.name.clone() };
        self.ledger().and_then(|ledger| ledger.record(&entry)).map_err(fail)?;
        let (number, opened) = self.bind(&backing, &token, block as u32).map_err(fail)?;
        let (folder, identity) = (backing.folder.clone(), backing.identity);
        let bound = LoopDevice { number, device: opened, backing };
        let bound = self.loop_device.insert(bound);
        let status = loopdev::status(&bound.device).map_err(fail)?;
        let ours = status.is_some_and(|s| s.token == token && s.dev == identity.dev && s.ino == identity.ino);
        let device = BlockDevice::open(&loopdev::path(number)).map_err(fail)?;
        let device = BlockDevice { ours: true, ..device };
        if !ours || device.size != spec.size || device.logical_block_size.0 != block {
            return Err(fail(io::Error::other("the kernel made another device than asked for")));
        }
        settings::assert_all(&device.kernel_name, &LOOP_DEFAULTS).map_err(refuse)?;
        let raw = loopdev::open_direct(&device.path).map_err(fail)?;
        let before = bound.backing.allocated().map_err(fail)?;
        wipe_signatures(&raw, device.size.0).map_err(fail)?;
        let passed = loopdev::discard(&raw, 0, device.size.0).is_ok();
        let after = bound.backing.allocated().map_err(fail)?;
        if passed || after < before {
            return Err(fail(io::Error::other(
                "discards reach the backing file in spite of discard_max_bytes=0",
            )));
        }
        let direct = sysfs::text(&sysfs::class(&device.kernel_name).join("loop/dio")).map_err(fail)? == "1";
        let facts = Facts::from([
            ("kind".to_string(), json!("loop")),
            ("path".to_string(), json!(device.path)),
            ("size".to_string(), json!(device.size)),
            ("logical_block_size".to_string(), json!(device.logical_block_size)),
            ("backing".to_string(), json!(spec.backing)),
            ("backing_reused".to_string(), json!(reused)),
            ("backing_folder".to_string(), json!(folder)),
            ("backing_allocated".to_string(), json!(after)),
            ("underneath".to_string(), json!(sysfs::disks_under(&folder))),
            ("direct_io".to_string(), json!(direct)),
            ("discards_passed".to_string(), json!(false)),
            ("token".to_string(), json!(token)),
        ]);
        self.device = Some(device);
        Ok(facts)
    }

    fn token(&self) -> io::Result<String> {
        let prefix: String = self.trial.chars().take(36).collect();
        Ok(format!("fsdyno:{prefix}:{}", nonce()?))
    }

    /// Binds the file to a number of ours. Until it is bound anybody may bind it; then the next one.
    fn bind(&mut self, backing: &BackingFile, token: &str, block: u32) -> io::Result<(u32, File)> {
        for _ in 0..16 {
            let number = self.rig.take_number()?;
            match loopdev::configure(number, &backing.file, token, block) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => self.rig.forget_number(number),
                Err(error) => {
                    self.rig.give_number(number);
                    return Err(error);
                }
                Ok(device) => return Ok((number, device)),
            }
        }
        Err(io::Error::other("somebody else takes every loop device first"))
    }

    fn build_disk(&mut self, link: &Path, minimum: Bytes) -> Result<Facts, Refused> {
        if !self.rig.disks.contains_key(link) {
            let options = &self.rig.options;
            let disk = Disk::claim(link, &options.destroy, &options.state)?;
            self.rig.disks.insert(link.to_path_buf(), disk);
        }
        self.disk = Some(link.to_path_buf());
        let ledger = self.ledger.as_mut();
        let (Some(disk), Some(ledger)) = (self.rig.disks.get_mut(link), ledger) else {
            return Err(Refused::environment("the trial is over", "begin another"));
        };
        disk.verify()?;
        disk.hold().map_err(|failure| Refused { refusal: Refusal::Unsafe, reason: failure.reason })?;
        check_size(disk.device.size, minimum)?;
        disk.reset(ledger).map_err(refuse)?;
        self.device = Some(disk.device.clone());
        Ok(Facts::from([
            ("kind".to_string(), json!("disk")),
            ("path".to_string(), json!(link)),
            ("kernel_name".to_string(), json!(disk.device.kernel_name)),
            ("size".to_string(), json!(disk.device.size)),
            ("logical_block_size".to_string(), json!(disk.device.logical_block_size)),
            ("serial".to_string(), json!(crate::disk::serial(&disk.device))),
        ]))
    }

    /// The block device that the file system goes on; none for a directory or in memory.
    #[must_use]
    pub fn device(&self) -> Option<&BlockDevice> {
        self.device.as_ref()
    }

    /// Kernel names of the whole disks that count this stack's I/O; of a directory, the disks under it.
    #[must_use]
    pub fn leaves(&self) -> Vec<String> {
        match (&self.device, &self.spec.directory, &self.folder) {
            (Some(device), ..) => vec![device.disk()],
            (None, Some(_), Some(folder)) => sysfs::disks_under(&folder.path),
            _ => Vec::new(),
        }
    }

    /// Kernel names of the whole disks under the backing files.
    #[must_use]
    pub fn underneath(&self) -> Vec<String> {
        self.loop_device.as_ref().map(|l| sysfs::disks_under(&l.backing.folder)).unwrap_or_default()
    }

    /// A UUID for the next mkfs to use. On a real disk it is on record as ours before this returns.
    ///
    /// # Errors
    /// If it cannot be recorded: then mkfs must not run.
    pub fn claim_uuid(&mut self) -> Result<String, Failure> {
        let state = self.rig.options.state.clone();
        let fail = |error: io::Error| Failure::io("cannot record a UUID in", &state, &error);
        let uuid = uuid().map_err(fail)?;
        if let (Some(disk), Some(ledger)) =
            (self.disk.as_ref().and_then(|link| self.rig.disks.get(link)), self.ledger.as_mut())
        {
            disk.own(&uuid, &state, ledger).map_err(fail)?;
            self.owns_superblock = true;
        }
        Ok(uuid)
    }

    /// Applies and proves settings: scheduler and cache mode at the device's queue, read-ahead at
    /// the mounted file system (at the device before a mount, and again at each later mount).
    ///
    /// # Errors
    /// If the kernel does not take one, or the effect is not seen; `Unsupported` where there is no
    /// such layer, as with file systems in memory.
    pub fn set(&mut self, settings: &Settings) -> Result<Facts, Failure> {
        if settings.is_empty() {
            return Ok(Facts::new());
        }
        let Some(device) = self.device.clone() else {
            return Err(Failure::new(
                fsdyno_spec::outcome::Outcome::Unsupported,
                "there is no device of ours whose settings could be changed",
                "leave the settings out for file systems in memory and for directories",
            ));
        };
        let own = self.mounted.as_ref().and_then(|m| m.read_ahead.clone());
        let attribute = own.unwrap_or_else(|| sysfs::queue(&device.kernel_name).join("read_ahead_kb"));
        // The kernel computes read-ahead anew when the cache mode changes: it must not pass unnoticed.
        let before = sysfs::number(&attribute).map(Bytes::kib).ok();
        let mut facts = settings::apply_queue(&device, settings)?;
        if let Some(wanted) = settings.read_ahead.or(before) {
            facts.extend(settings::read_ahead(&attribute, wanted)?);
        }
        self.read_ahead = settings.read_ahead.or(self.read_ahead);
        Ok(facts)
    }

    /// Mounts the file system in the trial's folder and puts the read-ahead that was set on it.
    ///
    /// # Errors
    /// `Unsupported` if the kernel has no such file system; else `Failed`, with what the kernel said.
    pub fn mount(&mut self, plan: &MountPlan) -> Result<Facts, Failure> {
        let Some(point) = self.folder.as_ref().map(|f| f.path.clone()) else {
            return Err(Failure::failed("nothing is built to mount on", "build the stack first"));
        };
        if self.mounted.is_some() || self.spec.directory.is_some() {
            return Err(Failure::failed("something is mounted already", "put an `unmount` phase before"));
        }
        let Some(ledger) = self.ledger.as_mut() else {
            return Err(Failure::failed("the trial is over", "begin another"));
        };
        // The file system takes the hold from here.
        let disk = self.disk.as_ref().and_then(|link| self.rig.disks.get_mut(link));
        if let Some(disk) = disk {
            disk.release();
        }
        let result = mount::mount(ledger, plan, &point);
        let (mounted, mut facts) = match result {
            Ok(done) => done,
            Err(failure) => {
                self.hold_disk()?;
                return Err(failure);
            }
        };
        let attribute = mounted.read_ahead.clone();
        self.took = mounted.took;
        self.mounted = Some(mounted);
        match (attribute, self.read_ahead) {
            (Some(attribute), Some(wanted)) => facts.extend(settings::read_ahead(&attribute, wanted)?),
            (Some(attribute), None) => {
                let now = sysfs::number(&attribute).map(|kib| kib * 1024).ok();
                facts.insert("read_ahead".into(), json!(now));
            }
            (None, _) => {}
        }
        Ok(facts)
    }

    fn hold_disk(&mut self) -> Result<(), Failure> {
        match self.disk.as_ref().and_then(|link| self.rig.disks.get_mut(link)) {
            Some(disk) => disk.hold(),
            None => Ok(()),
        }
    }

    /// What the kernel's own calls of the last mount or unmount took, without our records and
    /// read-backs.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Where the file system is mounted.
    #[must_use]
    pub fn mount_point(&self) -> Option<&Path> {
        self.mounted.as_ref().map(|m| m.point.as_path())
    }

    /// Where a workload may work: the mount point, or our folder in the given directory.
    #[must_use]
    pub fn data_root(&self) -> Option<&Path> {
        match &self.spec.directory {
            Some(_) => self.folder.as_ref().map(|f| f.path.as_path()),
            None => self.mount_point(),
        }
    }

    /// Unmounts; nothing mounted is no error.
    ///
    /// # Errors
    /// `TeardownFailed` with who still holds it.
    pub fn unmount(&mut self) -> Result<(), Failure> {
        if let Some(mounted) = &self.mounted {
            let begin = Instant::now();
            mounted.unmount()?;
            self.took = begin.elapsed();
            self.mounted = None;
        }
        self.hold_disk()
    }

    /// Brings everything of the trial's file system to its device (`syncfs`).
    ///
    /// # Errors
    /// Of the file system, writeback errors included.
    pub fn sync(&self) -> Result<(), Failure> {
        match self.data_root() {
            Some(root) => folder::sync(root).map_err(|e| self.explain(Failure::io("cannot sync", root, &e))),
            None => Ok(()),
        }
    }

    /// Forgets clean cached pages, dentries and inodes of the whole host, after a sync.
    ///
    /// # Errors
    /// `Unsupported` without root.
    pub fn drop_caches(&self) -> Result<(), Failure> {
        self.sync()?;
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| {
            Failure::new(
                fsdyno_spec::outcome::Outcome::Unsupported,
                format!("the caches cannot be dropped: {error}"),
                "run as root on a host whose /proc/sys is writable",
            )
        })
    }

    /// Adds to a failure what often stands behind it: the disk below is full, so that a sparse
    /// backing file could not grow and the file system saw I/O errors.
    #[must_use]
    pub fn explain(&self, mut failure: Failure) -> Failure {
        if let Some(full) = self.full() {
            failure.reason.message = format!("{}; {full}", failure.reason.message);
            failure.reason.advice =
                Some("use `written` backing, a smaller device, or a folder with room".into());
        }
        failure
    }

    /// A sentence, if the disk below a sparse backing file is full.
    #[must_use]
    pub fn full(&self) -> Option<String> {
        let backing = &self.loop_device.as_ref()?.backing;
        let free = rustix::fs::statvfs(&backing.folder).ok().map(|f| f.f_bavail * f.f_frsize)?;
        let lacking = backing.size.saturating_sub(backing.allocated().ok()?);
        let full = backing.backing == Backing::Sparse && free < lacking && free < (16 << 20);
        full.then(|| {
            format!(
                "{} is full ({} free): the backing file cannot grow",
                backing.folder.display(),
                Bytes(free)
            )
        })
    }

    /// Runs a tool to its end, or kills its process group when `stop` is set or `deadline` passes. A
    /// real disk is let go while it runs. What its exit code means is the caller's to judge.
    ///
    /// # Errors
    /// `Unsupported` if there is no such program, `Cancelled`, `TimedOut`, `TeardownFailed` if it
    /// could not be killed, `Failed` if somebody took the disk meanwhile.
    pub fn tool(
        &mut self,
        command: &CommandLine,
        stop: &AtomicBool,
        deadline: Option<Instant>,
    ) -> Result<ToolOutput, Failure> {
        if let Some(disk) = self.disk.as_ref().and_then(|link| self.rig.disks.get_mut(link)) {
            disk.release();
        }
        let ledger = self.ledger.as_mut();
        let output = tool::run(command, stop, deadline, |pid| {
            if let (Some(ledger), Some(start)) = (ledger, process_start(pid)) {
                // It dies with us anyway; an unrecorded one is only found more slowly.
                let _ = ledger.record(&Entry::Process { pid, start });
            }
        });
        let held = if self.mounted.is_none() { self.hold_disk() } else { Ok(()) };
        // What the tool did comes first: a disk that cannot be held again may be its doing.
        output.and_then(|output| held.map(|()| output))
    }

    /// Takes everything down that stands, in reverse order, as far as it goes. The failures, a
    /// sentence each; if there are none, the ledger is gone.
    pub fn teardown(mut self) -> Vec<String> {
        self.undo()
    }

    fn undo(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        let mut note = |result: Result<(), Failure>| {
            if let Err(failure) = result {
                failures.push(failure.to_string());
            }
        };
        note(self.unmount());
        let mounted = self.mounted.is_some();
        if let (Some(link), false) = (self.disk.take(), mounted)
            && let Some(disk) = self.rig.disks.get_mut(&link)
        {
            note(if self.owns_superblock { disk.wipe() } else { Ok(()) });
            note(disk.restore());
        }
        self.device = None;
        if let Some(LoopDevice { number, device, backing }) = self.loop_device.take() {
            drop(device);
            if loopdev::wait_unbound(number, AUTOCLEAR) {
                self.rig.give_number(number);
                self.rig.give_file(backing);
            } else {
                let message = format!("/dev/loop{number} does not let its file go");
                note(Err(Failure::failed(message, "see who has it open: lsof, lsblk")));
            }
        }
        if let (Some(folder), false) = (self.folder.take(), mounted) {
            note(folder.remove().map_err(|e| Failure::io("cannot remove", &folder.path, &e)));
        }
        if let Some(ledger) = self.ledger.take().filter(|_| failures.is_empty())
            && let Err(error) = ledger.discard()
        {
            failures.push(format!("the ledger cannot be removed: {error}"));
        }
        failures
    }
}

impl Drop for TrialStack<'_> {
    /// A stack that was not taken down (a panic) is taken down here; the ledger tells the rest.
    fn drop(&mut self) {
        if self.ledger.is_some() {
            self.undo();
        }
    }
}

fn check_size(size: Bytes, minimum: Bytes) -> Result<(), Refused> {
    if size.0 >= minimum.0 && size.0 > 0 {
        return Ok(());
    }
    Err(Refused::new(
        Refusal::BadRequest,
        format!("a device of {size} is too small: this file system needs {minimum}"),
        format!("give the device at least {minimum}"),
    ))
}

/// A failure while building is something outside that stands in the way.
fn refuse(failure: Failure) -> Refused {
    Refused { refusal: Refusal::Environment, reason: failure.reason }
}

/// A random UUID (RFC 9562, version 4).
fn uuid() -> io::Result<String> {
    let mut text = format!("{}{}", nonce()?, nonce()?);
    text.replace_range(12..13, "4");
    text.replace_range(
        16..17,
        ["8", "9", "a", "b"][text[16..17].bytes().next().map_or(0, |b| b as usize % 4)],
    );
    Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}
