//! Real disks: named twice, blank or ours, and held while we have them.
//!
//! A disk is held by an `O_EXCL` open, which the kernel grants to one holder and to nobody while
//! anything is mounted, swapping or stacked on it. mkfs, checkers and mount take the same hold
//! themselves, so ours is let go right before each of them and taken again right after. Whenever it is
//! taken, the descriptor itself (not its name) must be the device that was claimed: device number,
//! size, serial number and `diskseq`. Everything that we write goes through that descriptor, and only
//! over nothing or over a file system of ours.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::backing::wipe_signatures;
use crate::failure::{Failure, Refused};
use crate::ledger::{Entry, Ledger, sync_folder};
use crate::safety;
use crate::settings::{self, DISK_KEEPS, DISK_NEEDS};
use crate::sysfs::{self, BlockDevice};
use crate::tool;

/// A disk that the user gave up, for the life of the agent.
#[derive(Debug)]
pub struct Disk {
    /// Its link below /dev/disk/by-id.
    pub link: PathBuf,
    /// The device.
    pub device: BlockDevice,
    state: PathBuf,
    number: u64,
    serial: Option<String>,
    sequence: u64,
    found: Vec<(&'static str, String)>,
    hold: Option<File>,
    /// Whether this trial may have put something of ours on it.
    written: bool,
}

/// A file system that we made on a real disk: how a later trial recognises its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    /// Its UUID, recorded before mkfs wrote it.
    pub uuid: String,
    /// Size of the disk in bytes.
    pub size: u64,
    /// Serial number of the disk, where there is one.
    pub serial: Option<String>,
}

/// File systems of ours on real disks.
pub fn owned(state: &Path) -> Vec<Owned> {
    let text = fs::read_to_string(state.join("owned.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn remember(state: &Path, owned: &Owned) -> io::Result<()> {
    let path = state.join("owned.jsonl");
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // Begun with a line end, so that a line that a full disk tore does not swallow this one.
    let mut line = vec![b'\n'];
    line.extend(serde_json::to_vec(owned)?);
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_all()?;
    sync_folder(state)
}

/// Serial number or world-wide name of a disk, where sysfs has one.
pub fn serial(device: &BlockDevice) -> Option<String> {
    serial_of(&device.disk())
}

/// [`serial`] by the kernel name of a whole disk.
pub fn serial_of(disk: &str) -> Option<String> {
    let disk = sysfs::class(disk);
    let places = ["serial", "device/serial", "wwid", "device/wwid"];
    places.iter().filter_map(|place| sysfs::text(&disk.join(place)).ok()).find(|text| !text.is_empty())
}

/// `diskseq` of a disk: never given twice within a boot (kernel 5.15 and later; 0 before).
pub fn sequence(device: &BlockDevice) -> u64 {
    sysfs::number(&sysfs::class(&device.disk()).join("diskseq")).unwrap_or(0)
}

/// `BLKGETDISKSEQ` of linux/fs.h: [`sequence`] of the disk that a descriptor is on (0 before 5.15).
fn sequence_of(file: &File) -> u64 {
    const BLKGETDISKSEQ: libc::c_ulong = 0x8008_1280;
    let mut sequence = 0u64;
    // SAFETY: the argument is a 64-bit number that lives during the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKGETDISKSEQ as _, &raw mut sequence) };
    if result < 0 { 0 } else { sequence }
}

/// The device that a descriptor is on, whatever its name leads to by now.
///
/// # Errors
/// If sysfs does not know it.
pub fn opened(file: &File) -> io::Result<BlockDevice> {
    BlockDevice::open(&descriptor(file))
}

/// A path to what a descriptor refers to, for a tool that takes paths only.
fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// [`signatures_at`] of the device that a descriptor is on.
pub fn signatures_on(file: &File) -> Result<Vec<(String, String)>, Failure> {
    signatures_at(&descriptor(file))
}

/// What low-level probing finds on a device: `KEY=value` pairs; empty if it is blank. That a
/// partition is an entry of its disk's table says nothing of its contents.
pub fn signatures_at(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let out = tool::ask("blkid", &["-p", "-o", "export", &path.to_string_lossy()])?;
    match out.exit {
        // 2: nothing found (blkid(8)).
        Some(2) => Ok(Vec::new()),
        Some(0) => Ok(String::from_utf8_lossy(&out.stdout)
            .lines()
            .filter_map(|line| line.split_once('='))
            .filter(|(key, _)| *key != "DEVNAME" && !key.starts_with("PART_ENTRY_"))
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()),
        _ => Ok(vec![("TYPE".into(), "several signatures at once".into())]),
    }
}

impl Disk {
    /// Checks everything that could make the disk somebody's, then holds it.
    ///
    /// # Errors
    /// `Unsafe` with what was found; `Busy` holders are `Unsafe` too.
    pub fn claim(link: &Path, destroy: &[PathBuf], state: &Path) -> Result<Self, Refused> {
        let device = safety::named_twice(link, destroy)?;
        safety::nobody_uses(&device)?;
        let hold = open_exclusive(&device).map_err(|error| {
            Refused::unsafe_device(
                format!("{} cannot be taken for us alone: {error}", link.display()),
                "something uses it: end that, or choose another disk",
            )
        })?;
        let refuse = |e: io::Error| Refused::io("cannot look at", &device.path, &e);
        let disk = Self {
            link: link.to_path_buf(),
            state: state.to_path_buf(),
            number: hold.metadata().map_err(refuse)?.rdev(),
            serial: serial(&device),
            sequence: sequence(&device),
            found: DISK_KEEPS
                .into_iter()
                .filter_map(|name| Some((name, settings::get(&device.disk(), name).ok()?)))
                .collect(),
            device,
            hold: None,
            written: false,
        };
        // What its name led to before the open counts only if the descriptor is the same.
        disk.verify_descriptor(&hold)?;
        disk.blank_or_ours(&hold)?;
        Ok(Self { hold: Some(hold), ..disk })
    }

    /// Refuses unless nothing is on the disk, or a file system that we made on it.
    fn blank_or_ours(&self, file: &File) -> Result<Contents, Refused> {
        let found = signatures_on(file).map_err(|failure| {
            let advice = "install util-linux: without blkid no disk is touched";
            Refused::environment(failure.reason.message, advice)
        })?;
        let owned = owned(&self.state);
        safety::blank_or_ours(&self.link, &found, |uuid| owned.iter().any(|o| self.is(o, uuid)))?;
        Ok(if found.is_empty() { Contents::Blank } else { Contents::Ours })
    }

    fn is(&self, owned: &Owned, uuid: &str) -> bool {
        let disk = (owned.size, &owned.serial) == (self.device.size.0, &self.serial);
        disk && owned.uuid.eq_ignore_ascii_case(uuid)
    }

    /// Whether it is still the disk that was claimed.
    ///
    /// # Errors
    /// `Unsafe` with what changed.
    pub fn verify(&self) -> Result<(), Refused> {
        let now = safety::resolve(&self.link)?;
        self.differs(&now, sequence(&now)).map_or(Ok(()), |what| Err(self.changed(what)))
    }

    /// Whether an open descriptor is on the disk that was claimed.
    fn verify_descriptor(&self, file: &File) -> Result<(), Refused> {
        let number = file.metadata().is_ok_and(|meta| meta.rdev() == self.number);
        let Some(now) = opened(file).ok().filter(|_| number) else {
            return Err(self.changed("device number"));
        };
        self.differs(&now, sequence_of(file)).map_or(Ok(()), |what| Err(self.changed(what)))
    }

    fn differs(&self, now: &BlockDevice, sequence: u64) -> Option<&'static str> {
        if now.kernel_name != self.device.kernel_name {
            return Some("kernel name");
        }
        if now.size != self.device.size {
            return Some("size");
        }
        if serial(now) != self.serial {
            return Some("serial number");
        }
        (sequence != self.sequence).then_some("sequence number")
    }

    fn changed(&self, what: &str) -> Refused {
        let message = format!("{} is another disk than before: its {what} changed", self.link.display());
        Refused::unsafe_device(message, "start again when the disk stays connected")
    }

    /// Lets the hold go for a tool or a mount that takes its own.
    pub fn release(&mut self) {
        self.hold = None;
    }

    /// Takes the hold again, if what is taken is still the disk that was claimed, by descriptor and
    /// by link.
    ///
    /// # Errors
    /// If somebody else took the disk meanwhile, or it is another one.
    pub fn hold(&mut self) -> Result<(), Failure> {
        if self.hold.is_none() {
            let taken = open_exclusive(&self.device).map_err(|error| {
                let message = format!("{} was taken by somebody else: {error}", self.link.display());
                Failure::failed(message, "find out who uses the disk")
            })?;
            self.verify_descriptor(&taken)?;
            self.verify()?;
            self.hold = Some(taken);
        }
        Ok(())
    }

    fn held(&self) -> Result<&File, Refused> {
        self.hold.as_ref().ok_or_else(|| {
            let message = format!("{} is not held by us", self.link.display());
            Refused::unsafe_device(message, "unmount it first")
        })
    }

    /// Makes the disk look blank and its queue as it was found, with what counting needs. Each
    /// attribute that changes is in the ledger before.
    ///
    /// # Errors
    /// Of the disk or its queue.
    pub fn reset(&self, ledger: &mut Ledger) -> Result<(), Failure> {
        let io = |error: io::Error| Failure::io("cannot prepare", &self.device.path, &error);
        let file = self.held()?;
        // It was let go since the claim, so somebody may have made something on it.
        self.blank_or_ours(file)?;
        wipe_signatures(file, self.device.size.0).map_err(io)?;
        let disk = self.device.disk();
        for (attribute, old) in &self.found {
            ledger
                .record(&Entry::Queue {
                    disk: disk.clone(),
                    sequence: self.sequence,
                    size: whole_size(&disk),
                    serial: self.serial.clone(),
                    attribute: (*attribute).to_string(),
                    old: old.clone(),
                })
                .map_err(io)?;
        }
        let found: Vec<_> = self.found.iter().map(|(name, value)| (*name, value.as_str())).collect();
        settings::assert_all(&disk, &found)?;
        settings::assert_all(&disk, &DISK_NEEDS)
    }

    /// Puts the queue back to what was found when the disk was claimed; if another disk has its
    /// kernel name by now, there is nothing to put back.
    ///
    /// # Errors
    /// Of the queue.
    pub fn restore(&self) -> Result<(), Failure> {
        let now = BlockDevice::open(&self.device.path);
        if !now.is_ok_and(|now| self.differs(&now, sequence(&now)).is_none()) {
            return Ok(());
        }
        let found: Vec<_> = self.found.iter().map(|(name, value)| (*name, value.as_str())).collect();
        settings::assert_all(&self.device.disk(), &found)
    }

    /// Records that a file system, array or volume with this UUID, about to be made here, is ours. The
    /// tool may then be forced: nothing is here, or something that we made before.
    ///
    /// # Errors
    /// Of the state folder, or if anything else is on the disk; then mkfs must not run.
    pub fn own(&mut self, uuid: &str, ledger: &mut Ledger) -> io::Result<()> {
        self.held().and_then(|file| self.blank_or_ours(file)).map_err(io::Error::other)?;
        let (size, serial) = (self.device.size.0, self.serial.clone());
        remember(&self.state, &Owned { uuid: uuid.to_string(), size, serial: serial.clone() })?;
        let uuid = uuid.to_string();
        ledger.record(&Entry::Superblock { disk: self.link.clone(), size, serial, uuid })?;
        self.written = true;
        Ok(())
    }

    /// Removes what makes known what we put on it in this trial, so that the disk is blank when we leave
    /// it. A disk on which we put nothing, or nothing is known, is left as it is.
    ///
    /// # Errors
    /// Of the disk; if it is another one, or something foreign is on it: then it is not written to.
    pub fn wipe(&mut self) -> Result<(), Failure> {
        if !self.written {
            return Ok(());
        }
        self.hold()?;
        let file = self.held()?;
        match self.blank_or_ours(file)? {
            Contents::Blank => {}
            Contents::Ours => wipe_signatures(file, self.device.size.0)
                .map_err(|error| Failure::io("cannot wipe", &self.device.path, &error))?,
        }
        self.written = false;
        Ok(())
    }
}

/// What is on a disk that may be written to.
enum Contents {
    /// Nothing that low-level probing knows.
    Blank,
    /// A file system that we made.
    Ours,
}

/// Size of a whole disk in bytes, where sysfs has one.
pub fn whole_size(disk: &str) -> Option<u64> {
    sysfs::number(&sysfs::class(disk).join("size")).ok().map(|sectors| sectors * 512)
}

/// Opens the device for us alone, for direct I/O.
///
/// # Errors
/// `EBUSY` while anybody else holds it.
pub fn open_exclusive(device: &BlockDevice) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL | libc::O_DIRECT).open(&device.path)
}
