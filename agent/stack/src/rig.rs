//! The rig: a host's lock, folders and mount namespace, and what outlives a trial (loop numbers,
//! written backing files, claimed disks). There is one per agent and one per state folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_spec::event::{Cleaned, Refusal};
use fsdyno_spec::trial::{Backing, FileDevice, Stack};
use fsdyno_spec::units::Bytes;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::backing::BackingFile;
use crate::clean;
use crate::disk::Disk;
use crate::failure::{Failure, Refused};
use crate::folder;
use crate::identity::{nonce, process_start};
use crate::leaf::looped;
use crate::ledger::{self, Entry, Ledger};
use crate::loopdev;
use crate::sysfs;
use crate::trial::TrialStack;

/// Where a rig keeps its things, and what it may destroy.
#[derive(Clone, Debug, Default)]
pub struct RigOptions {
    /// Ledgers, the lock, and the record of file systems of ours on real disks.
    pub state: PathBuf,
    /// Mount points, and backing files that name no folder of their own.
    pub work: PathBuf,
    /// Links below /dev/disk/by-id of disks whose contents may be lost.
    pub destroy: Vec<PathBuf>,
    /// This machine was booted for trials: its `file` devices are virtio disks that it was given.
    pub attached: bool,
}

/// A file for a machine's disk, open for reading and writing, and without a name.
#[derive(Debug)]
pub struct Image {
    file: BackingFile,
    logical_block_size: Bytes,
    reused: bool,
}

impl Image {
    /// The open file: it lives as long as somebody has a descriptor of it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file.file
    }

    /// Whether its file system takes direct I/O: then it was opened so.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.file.direct
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes(self.file.size)
    }

    /// Logical block size that the disk is to have.
    #[must_use]
    pub fn logical_block_size(&self) -> Bytes {
        self.logical_block_size
    }

    /// How it is laid out.
    #[must_use]
    pub fn backing(&self) -> Backing {
        self.file.backing
    }

    /// Whether an earlier trial used it.
    #[must_use]
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// The folder that it was made in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.file.folder
    }

    /// Kernel names of the whole disks that it lies on.
    #[must_use]
    pub fn underneath(&self) -> Vec<String> {
        sysfs::disks_under(&self.file.folder)
    }
}

/// A host that trials run on, one at a time.
#[derive(Debug)]
pub struct Rig {
    pub(crate) options: RigOptions,
    /// Why no devices can be made and nothing mounted, if so.
    barred: Option<String>,
    pub(crate) ledger: Ledger,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) disks: BTreeMap<PathBuf, Disk>,
    cleaned: Cleaned,
    numbers: Vec<u32>,
    free_numbers: Vec<u32>,
    /// Written files that nobody uses, by folder and size, in the order of their making: a slot gets
    /// the same file in each trial.
    written: BTreeMap<(PathBuf, u64), BTreeMap<u64, BackingFile>>,
    files: u64,
    /// Queue attributes of attached disks as the first trial found them, by kernel name.
    pub(crate) attached: BTreeMap<String, Vec<(&'static str, String)>>,
    /// Last, so that it is let go when everything else is gone.
    _lock: File,
}

impl Rig {
    /// Takes the rig: its lock, its folders, a mount namespace of its own (the calling thread's and
    /// that of threads it starts later, so call it first), and undoes what dead agents left.
    ///
    /// # Errors
    /// `Busy` if another agent has it; `Environment` if the folders cannot be used.
    pub fn open(options: RigOptions) -> Result<Self, Refused> {
        let state = &options.state;
        folder::own(state)?;
        folder::own(&options.work)?;
        folder::own(&ledgers(state))?;
        let lock = lock(state)?;
        let options = RigOptions {
            state: canonical(state)?,
            work: canonical(&options.work)?,
            destroy: options.destroy.clone(),
            attached: options.attached,
        };
        // Without the privilege there are still directories to measure in.
        let barred = match rustix::process::geteuid().is_root() {
            true => private_mounts().err().map(|errno| format!("no mount namespace can be made: {errno}")),
            false => Some("the agent does not run as root".to_string()),
        };
        clean::unfinished(&ledgers(&options.state));
        let cleaned = clean::clean(&options.state);
        let fail = |error: io::Error| Refused::io("cannot write the ledger in", &options.state, &error);
        let name = format!("rig-{}", nonce().map_err(fail)?);
        let ledger = Ledger::create(&ledgers(&options.state), &name).map_err(fail)?;
        Ok(Self {
            options,
            barred,
            ledger,
            stop: Arc::default(),
            disks: BTreeMap::new(),
            cleaned,
            numbers: Vec::new(),
            free_numbers: Vec::new(),
            written: BTreeMap::new(),
            files: 0,
            attached: BTreeMap::new(),
            _lock: lock,
        })
    }

    /// What dead agents had left, and what became of it.
    #[must_use]
    pub fn cleaned(&self) -> &Cleaned {
        &self.cleaned
    }

    /// Ledgers, the lock, and the record of file systems of ours on real disks.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.options.state
    }

    /// Mount points, and backing files that name no folder of their own.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.options.work
    }

    /// Records a process that this agent has just started and that may outlive it if it is killed (the
    /// leader of a group of its own): the next agent then ends it, and its group. One that ended by
    /// itself is nothing to worry about: pid and start time name no other.
    ///
    /// # Errors
    /// If the ledger cannot be written, or there is no such process.
    pub fn note_process(&mut self, pid: u32) -> Result<(), Failure> {
        let fail = |error: io::Error| Failure::io("cannot write the ledger in", &self.options.state, &error);
        let start = process_start(pid).ok_or_else(|| fail(io::Error::from_raw_os_error(libc::ESRCH)))?;
        self.ledger.record(&Entry::Process { pid, start }).map_err(fail)
    }

    /// A file to give to a machine as a disk: written ones are kept for the campaign and used again,
    /// sparse ones are made anew. It has no name any more: pass its descriptor on. Needs no root.
    /// `device.count` is not looked at: it is one.
    ///
    /// # Errors
    /// A refusal: a size that no device can have, no room (with how much is needed), the folder cannot
    /// be written, stopped.
    pub fn image(
        &mut self,
        device: &FileDevice,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<Image, Refused> {
        looped::check(device)?;
        let (file, reused) = self.file(None, device, progress)?;
        Ok(Image { file, logical_block_size: device.logical_block_size, reused })
    }

    /// Gives an image back when no machine has it any more; a written one serves again.
    pub fn give_image(&mut self, image: Image) {
        self.give_file(image.file);
    }

    /// A flag that ends long work of the rig's own (filling backing files) when somebody sets it.
    pub fn stop_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// Begins a trial: its ledger exists, nothing else does.
    ///
    /// # Errors
    /// `BadRequest` for an identifier that cannot be a file name or was used before; `NoRoot` for a
    /// stack of devices without root.
    pub fn begin(&mut self, trial: &str, stack: &Stack) -> Result<TrialStack<'_>, Refused> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if trial.is_empty() || trial.len() > 64 || !trial.chars().all(plain) {
            let message = format!("`{trial}` cannot name a trial");
            return Err(Refused::new(Refusal::BadRequest, message, "use a UUID"));
        }
        if let (Some(why), None) = (&self.barred, &stack.directory) {
            return Err(Refused::new(
                Refusal::NoRoot,
                format!("devices cannot be made and mounted here: {why}"),
                "run as root with CAP_SYS_ADMIN, or measure in an existing directory (`fsdyno bench DIR`)",
            ));
        }
        let folder = ledgers(&self.options.state);
        let name = format!("trial-{trial}");
        let ledger = Ledger::create(&folder, &name)
            .map_err(|e| Refused::io("cannot make a ledger in", &folder, &e))?;
        Ok(TrialStack::new(self, ledger, trial, stack.clone()))
    }

    /// A loop number that nobody else's attributes are on; given back by [`Rig::give_number`].
    pub(crate) fn take_number(&mut self) -> io::Result<u32> {
        if let Some(number) = self.free_numbers.pop() {
            return Ok(number);
        }
        loop {
            let number = loopdev::draw()?;
            if loopdev::exists(number) {
                continue;
            }
            if self.add_number(number)? {
                return Ok(number);
            }
        }
    }

    /// Adds a number to the kernel's pool; false if somebody added the same in this instant: it is
    /// theirs, and said so before anything else happens, so that nobody takes it out later.
    fn add_number(&mut self, number: u32) -> io::Result<bool> {
        self.ledger.record(&Entry::LoopNumber { number })?;
        match loopdev::add(number) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.ledger.record(&Entry::NotOurLoopNumber { number })?;
                Ok(false)
            }
            other => {
                other?;
                self.numbers.push(number);
                Ok(true)
            }
        }
    }

    pub(crate) fn give_number(&mut self, number: u32) {
        self.free_numbers.push(number);
    }

    /// A number was bound by somebody else first: it is theirs now.
    pub(crate) fn forget_number(&mut self, number: u32) {
        self.numbers.retain(|&n| n != number);
        // If that fails, the number is taken out when it is unbound and unused: late, and harmless.
        let _ = self.ledger.record(&Entry::NotOurLoopNumber { number });
    }

    /// A backing file for a device, and whether an earlier trial used it. A sparse one belongs to
    /// the trial and its ledger.
    pub(crate) fn take_file(
        &mut self,
        trial: &mut Ledger,
        device: &FileDevice,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(BackingFile, bool), Refused> {
        self.file(Some(trial), device, progress)
    }

    /// Likewise; without a trial everything belongs to the rig.
    fn file(
        &mut self,
        trial: Option<&mut Ledger>,
        device: &FileDevice,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<(BackingFile, bool), Refused> {
        let folder = match &device.folder {
            Some(folder) => folder::offered(folder)?,
            None => self.options.work.clone(),
        };
        let kept = self.written.entry((folder.clone(), device.size.0)).or_default();
        if device.backing == Backing::Written {
            // One that something punched in spite of all is not the same file any more.
            kept.retain(|_, file| file.allocated().is_ok_and(|allocated| allocated >= file.size));
            if let Some((_, file)) = kept.pop_first() {
                return Ok((file, true));
            }
        }
        let (size, backing) = (device.size.0, device.backing);
        let ledger = match trial {
            Some(trial) if backing == Backing::Sparse => trial,
            _ => &mut self.ledger,
        };
        let file = BackingFile::make(ledger, &folder, size, backing, &self.stop, progress)?;
        self.files += 1;
        Ok((BackingFile { number: self.files, ..file }, false))
    }

    pub(crate) fn give_file(&mut self, file: BackingFile) {
        if file.backing == Backing::Written {
            let kept = self.written.entry((file.folder.clone(), file.size)).or_default();
            kept.insert(file.number, file);
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.written.clear();
        self.disks.clear();
        let mut whole = true;
        for &number in &self.numbers {
            whole &= clean::remove_number(number);
        }
        if whole {
            // If that fails, the next agent finds nothing to undo in it.
            let _ = self.ledger.discard();
        }
    }
}

pub(crate) fn ledgers(state: &Path) -> PathBuf {
    state.join("ledger")
}

fn canonical(path: &Path) -> Result<PathBuf, Refused> {
    fs::canonicalize(path).map_err(|error| Refused::io("cannot resolve", path, &error))
}

/// Takes `<state>/rig.lock`, which names its holder.
fn lock(state: &Path) -> Result<File, Refused> {
    let path = state.join("rig.lock");
    let fail = |error: io::Error| Refused::io("cannot lock", &path, &error);
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = open.map_err(fail)?;
    let holder = || fs::read_to_string(&path).ok()?.trim().parse().ok();
    match ledger::lock(&file, holder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let holder = holder().map_or("unknown".to_string(), |pid: u32| pid.to_string());
            return Err(Refused::new(
                Refusal::Busy,
                format!("another agent (pid {holder}) measures on this rig"),
                "wait until its campaign ends, or stop it: two at once would disturb each other",
            ));
        }
        Err(error) => return Err(fail(error)),
    }
    file.set_len(0).map_err(fail)?;
    writeln!(file, "{}", std::process::id()).map_err(fail)?;
    Ok(file)
}

/// Moves this thread to a mount namespace of its own, which sees the host's later mounts but shows
/// it none of ours. When the last thread in it dies, its mounts go.
fn private_mounts() -> Result<(), Errno> {
    // SAFETY: only the mount namespace (and with it root and working directory) is unshared, no
    // descriptor table.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_number_that_somebody_else_has_is_theirs_in_the_ledger_too() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: adding loop devices needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (state, work) = (folder.path().join("state"), folder.path().join("work"));
        let mut rig = Rig::open(RigOptions { state: state.clone(), work, ..RigOptions::default() }).unwrap();
        let add = || loop {
            let number = loopdev::draw().unwrap();
            if !loopdev::exists(number) {
                loopdev::add(number).unwrap();
                return number;
            }
        };
        let (added, bound) = (add(), rig.take_number().unwrap());
        assert!(!rig.add_number(added).unwrap());
        rig.forget_number(bound);
        let ours = rig.take_number().unwrap();
        // As a killed agent leaves it: its ledger, and nobody who holds it.
        let dead = folder.path().join("dead");
        fs::create_dir_all(ledgers(&dead)).unwrap();
        for entry in fs::read_dir(ledgers(&state)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), ledgers(&dead).join(entry.file_name())).unwrap();
        }
        let _ = clean::clean(&dead);
        let left = [added, bound, ours].map(loopdev::exists);
        drop(rig);
        for number in [added, bound] {
            let _ = loopdev::remove(number);
        }
        assert_eq!(left, [true, true, false]);
    }
}
