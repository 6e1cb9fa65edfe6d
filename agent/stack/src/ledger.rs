//! The ledger: what an agent is about to make, written and synced before it exists, so that
//! whatever kills the agent, the next one knows what to look for. One file per trial (and one per
//! agent, for what lives longer than a trial), locked by the living agent, removed when everything
//! in it is undone. Entries are never changed: undoing twice is harmless, because each entry's
//! identity is verified first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::dirty::{Limit, Value};
use crate::identity::{Identity, MountId, boot_id, process_start};
use crate::patience;

pub use crate::clean::clean;

/// Version of the file format.
pub const VERSION: u32 = 1;

/// First line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub fsdyno_ledger: u32,
    /// Boot that the entries belong to.
    pub boot: String,
    /// The agent that wrote it, for people.
    pub pid: u32,
}

/// One thing that is made, or about to be. An entry without `made` is an intent: its name holds a
/// nonce, but whether the thing exists, and is ours, is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A folder of ours with everything in it. Lives on media.
    Folder {
        /// Its absolute path.
        path: PathBuf,
        /// Recorded right after `mkdir`.
        made: Option<Identity>,
    },
    /// A regular file (a backing file). Lives on media.
    File {
        /// Its absolute path.
        path: PathBuf,
        /// Recorded right after it was opened.
        made: Option<Identity>,
    },
    /// A loop device number that we added to the kernel's pool. Lapses with the boot.
    LoopNumber {
        /// `N` of `/dev/loopN`.
        number: u32,
    },
    /// A number that an entry before announced, and that somebody else has: they added it first, or
    /// bound it first. It is not taken out of the pool.
    NotOurLoopNumber {
        /// `N` of `/dev/loopN`.
        number: u32,
    },
    /// A bound loop device, known by its token and backing file, never by its number.
    Loop {
        /// `lo_file_name`.
        token: String,
        /// The backing file.
        backing: Identity,
        /// The name it had, to find the device without opening everybody's.
        name: String,
    },
    /// A mount. Lapses with the boot, and with the agent's mount namespace.
    Mount {
        /// Where.
        point: PathBuf,
        /// Which.
        id: MountId,
    },
    /// A process, the leader of its group. Lapses with the boot.
    Process {
        /// Its id.
        pid: u32,
        /// Its start time in clock ticks since boot.
        start: u64,
    },
    /// A queue attribute of a real disk that we change. Lapses with the boot.
    Queue {
        /// Kernel name.
        disk: String,
        /// `diskseq` of the disk: another disk of the same name has another.
        sequence: u64,
        /// Size of the whole disk in bytes: with the serial number it knows the disk where the kernel
        /// has no `diskseq`.
        #[serde(default)]
        size: Option<u64>,
        /// Serial number of the disk, where there is one.
        #[serde(default)]
        serial: Option<String>,
        /// File name below `queue`.
        attribute: String,
        /// What it was.
        old: String,
    },
    /// A limit of the host's dirty page cache that we change. Lapses with the boot.
    Dirty {
        /// Which.
        limit: Limit,
        /// What the host had.
        found: Value,
        /// Bytes that this trial has put or is about to put: it is put back only from one of them.
        ours: Vec<u64>,
    },
    /// An md array. Lives on media too: another boot may have assembled it again.
    Array {
        /// Its UUID, with hyphens.
        uuid: String,
    },
    /// A volume group. Lives on media too.
    VolumeGroup {
        /// Its name, which holds a nonce.
        name: String,
    },
    /// A file system of ours on a real disk. Lives on media.
    Superblock {
        /// Link below `/dev/disk/by-id`.
        disk: PathBuf,
        /// Size in bytes.
        size: u64,
        /// Serial number, where there is one.
        serial: Option<String>,
        /// UUID of the file system.
        uuid: String,
    },
}

/// A ledger that this process writes. The lock goes with the descriptor.
#[derive(Debug)]
pub struct Ledger {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    /// Bytes up to the end of the last entry that is on the medium; none if what follows them could
    /// not be taken back.
    good: Option<u64>,
}

impl Ledger {
    /// Makes `<folder>/<name>.jsonl`, locked and synced. It gets its name only when it is locked, so
    /// no cleaner ever sees it unlocked while its agent lives.
    ///
    /// # Errors
    /// Of the file system; `AlreadyExists` if there is one of this name.
    pub fn create(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(format!("{name}.jsonl"));
        if path.exists() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this trial has a ledger already"));
        }
        let hidden = folder.join(format!(".new-{name}"));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&hidden)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let header = Header { fsdyno_ledger: VERSION, boot: boot_id(), pid: std::process::id() };
        let header = line(&header)?;
        file.write_all(&header)?;
        file.sync_all()?;
        fs::rename(&hidden, &path)?;
        sync_folder(folder)?;
        Ok(Self { folder: folder.to_path_buf(), path, file, good: Some(header.len() as u64) })
    }

    /// Writes an entry and waits until it is on the medium. One that a full disk tore is taken back, so
    /// that the next one does not continue it; if even that fails, the ledger takes no more.
    ///
    /// # Errors
    /// Of the file system; then the thing must not be made.
    pub fn record(&mut self, entry: &Entry) -> io::Result<()> {
        let line = line(entry)?;
        let good = self.good.ok_or_else(|| io::Error::other("the ledger could not be written before"))?;
        let written = self.file.write_all_at(&line, good).and_then(|()| self.file.sync_data());
        self.good = match &written {
            Ok(()) => Some(good + line.len() as u64),
            Err(_) => self.file.set_len(good).and_then(|()| self.file.sync_data()).ok().map(|()| good),
        };
        written
    }

    /// Removes the file: everything in it is undone.
    ///
    /// # Errors
    /// Of the file system.
    pub fn discard(&self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        sync_folder(&self.folder)
    }
}

/// Takes a lock unless a living process has it. A process that was killed between a fork and an exec
/// leaves a child with its descriptors for an instant, so a dead holder is waited for.
pub(crate) fn lock(file: &File, holder: impl Fn() -> Option<u32>) -> io::Result<()> {
    let mut result = Ok(());
    patience::until(Duration::from_secs(2), || {
        result = flock(file, FlockOperation::NonBlockingLockExclusive);
        result != Err(Errno::WOULDBLOCK) || holder().is_some_and(|pid| process_start(pid).is_some())
    });
    Ok(result?)
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a ledger. A last line without its end was being written when the agent died: the thing it
/// announces was never made, so it is dropped.
///
/// # Errors
/// A sentence, if it is not a ledger of this version or a line in it is damaged.
pub fn read(text: &str) -> Result<(Header, Vec<Entry>), String> {
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut lines = whole.lines();
    let header: Header = lines
        .next()
        .ok_or("it is empty")
        .and_then(|first| serde_json::from_str(first).map_err(|_| "its first line is no ledger header"))?;
    if header.fsdyno_ledger != VERSION {
        return Err(format!("it has version {}, this agent reads {VERSION}", header.fsdyno_ledger));
    }
    let entries = lines
        .enumerate()
        .map(|(n, text)| serde_json::from_str(text).map_err(|e| format!("line {}: {e}", n + 2)))
        .collect::<Result<_, _>>()?;
    Ok((header, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_killed_in_mid_write_loses_only_what_was_never_made() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(folder.path(), "t").unwrap();
        let entry = Entry::Process { pid: 7, start: 9 };
        ledger.record(&entry).unwrap();
        let text = fs::read_to_string(folder.path().join("t.jsonl")).unwrap();
        for cut in 0..20 {
            let torn = format!("{text}{}", &r#"{"process":{"pid":8,"st"#[..cut]);
            assert_eq!(read(&torn).unwrap().1, std::slice::from_ref(&entry));
        }
        assert!(read(&format!("{text}garbage\n")).unwrap_err().contains("line 3"));
        ledger.discard().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_entry_that_a_full_disk_tore_is_taken_back_and_the_next_one_is_whole() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: mounting a small file system needs root");
            return;
        }
        // SAFETY: only the mount namespace of this test's thread is unshared.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.unwrap();
        let private =
            rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let none = rustix::mount::MountFlags::empty();
        rustix::mount::mount("full", folder.path(), "tmpfs", none, Some(c"size=16k")).unwrap();
        let filler = folder.path().join("filler");
        fs::write(&filler, [1; 4096]).unwrap();

        let mut ledger = Ledger::create(folder.path(), "t").unwrap();
        let path = folder.path().join("t.jsonl");
        let entry = |n: u64| Entry::File { path: format!("/{n}{}", "x".repeat(700)).into(), made: None };
        let kept = (0..).take_while(|&n| ledger.record(&entry(n)).is_ok()).count() as u64;
        let whole = fs::metadata(&path).unwrap().len();
        assert_ne!(whole % 4096, 0, "the disk became full within an entry");
        assert!(ledger.record(&entry(kept)).is_err(), "it still is full");
        assert_eq!(fs::metadata(&path).unwrap().len(), whole);
        fs::remove_file(&filler).unwrap();
        ledger.record(&entry(kept)).unwrap();
        let entries = read(&fs::read_to_string(&path).unwrap()).unwrap().1;
        assert_eq!(entries, (0..=kept).map(entry).collect::<Vec<_>>());
        drop(ledger);
        // Programs that tests beside this one are starting may hold its files for a moment.
        rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }

    #[test]
    fn a_ledger_whose_torn_entry_cannot_be_taken_back_takes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(folder.path(), "t").unwrap();
        let writable =
            std::mem::replace(&mut ledger.file, File::open(folder.path().join("t.jsonl")).unwrap());
        let entry = Entry::Process { pid: 7, start: 9 };
        ledger.record(&entry).unwrap_err();
        ledger.file = writable;
        assert!(ledger.record(&entry).unwrap_err().to_string().contains("before"));
        assert!(read(&fs::read_to_string(folder.path().join("t.jsonl")).unwrap()).unwrap().1.is_empty());
    }

    #[test]
    fn a_ledger_of_another_version_is_not_guessed_at() {
        let error = read("{\"fsdyno_ledger\":2,\"boot\":\"b\",\"pid\":1}\n").unwrap_err();
        assert!(error.contains("version 2"), "{error}");
        assert!(read("").is_err());
    }
}
