//! Real disks: named twice, blank or ours, and held while we have them.
//!
//! A disk is held by an `O_EXCL` open, which the kernel grants to one holder and to nobody while
//! anything is mounted, swapping or stacked on it. mkfs, checkers and mount take the same hold
//! themselves, so ours is let go right before each of them and taken again right after; in between
//! the size, the serial number and `diskseq` tell whether it is still the same disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
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
    serial: Option<String>,
    sequence: u64,
    found: Vec<(&'static str, String)>,
    hold: Option<File>,
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
    let mut line = serde_json::to_vec(owned)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_all()?;
    sync_folder(state)
}

/// Serial number or world-wide name of a disk, where sysfs has one.
pub fn serial(device: &BlockDevice) -> Option<String> {
    let disk = sysfs::class(&device.disk());
    let places = ["serial", "device/serial", "wwid", "device/wwid"];
    places.iter().filter_map(|place| sysfs::text(&disk.join(place)).ok()).find(|text| !text.is_empty())
}

/// `diskseq` of a disk: never given twice within a boot (kernel 5.15 and later; 0 before).
pub fn sequence(device: &BlockDevice) -> u64 {
    sysfs::number(&sysfs::class(&device.disk()).join("diskseq")).unwrap_or(0)
}

/// What low-level probing finds on a device: `KEY=value` pairs; empty if it is blank. That a
/// partition is an entry of its disk's table says nothing of its contents.
pub fn signatures(path: &Path) -> Result<Vec<(String, String)>, Failure> {
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
        let disk = Self {
            link: link.to_path_buf(),
            serial: serial(&device),
            sequence: sequence(&device),
            found: DISK_KEEPS
                .into_iter()
                .filter_map(|name| Some((name, settings::get(&device.disk(), name).ok()?)))
                .collect(),
            device,
            hold: Some(hold),
        };
        let found = signatures(&disk.device.path).map_err(|failure| {
            Refused::environment(
                failure.reason.message,
                "install util-linux: without blkid no disk is touched",
            )
        })?;
        safety::blank_or_ours(link, &found, |uuid| {
            owned(state).iter().any(|o| {
                o.uuid.eq_ignore_ascii_case(uuid) && o.size == disk.device.size.0 && o.serial == disk.serial
            })
        })?;
        Ok(disk)
    }

    /// Whether it is still the disk that was claimed.
    ///
    /// # Errors
    /// `Unsafe` with what changed.
    pub fn verify(&self) -> Result<(), Refused> {
        let changed = |what: &str| {
            let message = format!("{} is another disk than before: its {what} changed", self.link.display());
            Refused::unsafe_device(message, "start again when the disk stays connected")
        };
        let now = safety::resolve(&self.link)?;
        if now.kernel_name != self.device.kernel_name {
            return Err(changed("kernel name"));
        }
        if now.size != self.device.size {
            return Err(changed("size"));
        }
        if serial(&now) != self.serial {
            return Err(changed("serial number"));
        }
        if sequence(&now) != self.sequence {
            return Err(changed("sequence number"));
        }
        Ok(())
    }

    /// Lets the hold go for a tool or a mount that takes its own.
    pub fn release(&mut self) {
        self.hold = None;
    }

    /// Takes the hold again.
    ///
    /// # Errors
    /// If somebody else took the disk meanwhile.
    pub fn hold(&mut self) -> Result<(), Failure> {
        if self.hold.is_none() {
            let taken = open_exclusive(&self.device);
            self.hold = Some(taken.map_err(|error| {
                let message = format!("{} was taken by somebody else: {error}", self.link.display());
                Failure::failed(message, "find out who uses the disk")
            })?);
        }
        Ok(())
    }

    /// Makes the disk look blank and its queue as it was found, with what counting needs. Each
    /// attribute that changes is in the ledger before.
    ///
    /// # Errors
    /// Of the disk or its queue.
    pub fn reset(&self, ledger: &mut Ledger) -> Result<(), Failure> {
        let io = |error: io::Error| Failure::io("cannot prepare", &self.device.path, &error);
        let file = self.hold.as_ref().ok_or_else(|| io(io::ErrorKind::NotConnected.into()))?;
        wipe_signatures(file, self.device.size.0).map_err(io)?;
        let disk = self.device.disk();
        for (attribute, old) in &self.found {
            ledger
                .record(&Entry::Queue {
                    disk: disk.clone(),
                    sequence: self.sequence,
                    attribute: (*attribute).to_string(),
                    old: old.clone(),
                })
                .map_err(io)?;
        }
        let found: Vec<_> = self.found.iter().map(|(name, value)| (*name, value.as_str())).collect();
        settings::assert_all(&disk, &found)?;
        settings::assert_all(&disk, &DISK_NEEDS)
    }

    /// Puts the queue back to what was found when the disk was claimed.
    ///
    /// # Errors
    /// Of the queue.
    pub fn restore(&self) -> Result<(), Failure> {
        let found: Vec<_> = self.found.iter().map(|(name, value)| (*name, value.as_str())).collect();
        settings::assert_all(&self.device.disk(), &found)
    }

    /// Records that a file system with this UUID, about to be made here, is ours.
    ///
    /// # Errors
    /// Of the state folder; then mkfs must not run.
    pub fn own(&self, uuid: &str, state: &Path, ledger: &mut Ledger) -> io::Result<()> {
        let (size, serial) = (self.device.size.0, self.serial.clone());
        remember(state, &Owned { uuid: uuid.to_string(), size, serial: serial.clone() })?;
        let uuid = uuid.to_string();
        ledger.record(&Entry::Superblock { disk: self.link.clone(), size, serial, uuid })
    }

    /// Removes what makes our file system known, so that the disk is blank when we leave it.
    ///
    /// # Errors
    /// Of the disk.
    pub fn wipe(&mut self) -> Result<(), Failure> {
        self.hold()?;
        let io = |error: io::Error| Failure::io("cannot wipe", &self.device.path, &error);
        wipe_signatures(
            self.hold.as_ref().ok_or_else(|| io(io::ErrorKind::NotConnected.into()))?,
            self.device.size.0,
        )
        .map_err(io)
    }
}

/// Opens the device for us alone, for direct I/O.
///
/// # Errors
/// `EBUSY` while anybody else holds it.
pub fn open_exclusive(device: &BlockDevice) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL | libc::O_DIRECT).open(&device.path)
}
