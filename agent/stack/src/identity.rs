//! What makes a thing the same thing. Names, numbers and pids are recycled; nothing is undone
//! unless one of these identities, recorded when the thing was made, still holds.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, fstatfs, makedev, statx};
use serde::{Deserialize, Serialize};

/// Identity of a file or directory: device, inode, and birth time where the file system keeps it
/// (an inode number alone is reused after a deletion).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Device number of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Birth, seconds and nanoseconds since the epoch.
    pub born: Option<(i64, u32)>,
}

impl Identity {
    /// Identity of what a descriptor refers to.
    ///
    /// # Errors
    /// Of `statx(2)`.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_statx(&statx_fd(fd.as_fd())?))
    }

    /// Identity of what a path names; a symbolic link is itself.
    ///
    /// # Errors
    /// Of `statx(2)`.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::from_statx(&statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted())?))
    }

    /// This identity as it is in another boot, where the device may have another number: that of
    /// `found` if inode and birth agree, else unchanged.
    #[must_use]
    pub fn after_reboot(self, found: Self) -> Self {
        let same = self.born.is_some() && (self.ino, self.born) == (found.ino, found.born);
        if same { found } else { self }
    }

    fn from_statx(s: &Statx) -> Self {
        let born =
            (s.stx_mask & StatxFlags::BTIME.bits() != 0).then_some((s.stx_btime.tv_sec, s.stx_btime.tv_nsec));
        Self { dev: makedev(s.stx_dev_major, s.stx_dev_minor), ino: s.stx_ino, born }
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

fn statx_fd(fd: BorrowedFd<'_>) -> io::Result<Statx> {
    Ok(statx(fd, c"", AtFlags::EMPTY_PATH, wanted())?)
}

/// Identity of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountId {
    /// The number in mountinfo; reused after an unmount.
    pub id: u64,
    /// The number that is never reused (kernel 6.8 and later).
    pub unique: Option<u64>,
    /// Device number of the files on it.
    pub dev: Option<u64>,
    /// What kind of file system is on it (`f_type`, statfs(2)).
    pub kind: Option<u64>,
}

impl MountId {
    /// `STATX_MNT_ID_UNIQUE`, linux/stat.h.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

    /// Of the mount that a descriptor is on.
    ///
    /// # Errors
    /// Of `statx(2)`.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        let ask = |mask| statx(fd.as_fd(), c"", AtFlags::EMPTY_PATH, mask);
        let about = ask(StatxFlags::MNT_ID)?;
        let dev = Some(makedev(about.stx_dev_major, about.stx_dev_minor));
        let unique = ask(Self::UNIQUE)?;
        let known = unique.stx_mask & Self::UNIQUE.bits() != 0;
        let kind = Some(fstatfs(fd.as_fd())?.f_type as u64);
        Ok(Self { id: about.stx_mnt_id, unique: known.then_some(unique.stx_mnt_id), dev, kind })
    }

    /// Whether both are the same mount. Device and kind must agree on every kernel; before Linux 6.8
    /// they alone tell a mount from another one that got its number.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        let alike = (self.dev, self.kind) == (other.dev, other.kind);
        match (self.unique, other.unique) {
            (Some(a), Some(b)) => a == b && alike,
            _ => self.id == other.id && alike && self.dev.is_some(),
        }
    }
}

/// The kernel's id of this boot.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// Start time of a living process in clock ticks since boot: with the pid and the boot id it names
/// one process. None for a zombie, which holds nothing any more. `proc_pid_stat(5)`.
#[must_use]
pub fn process_start(pid: u32) -> Option<u64> {
    stat(pid).map(|(_, start)| start)
}

/// The process group of a living process; none for a zombie.
#[must_use]
pub fn process_group(pid: u32) -> Option<u32> {
    stat(pid).map(|(group, _)| group)
}

/// Fields 5 (group) and 22 (start) of a process whose field 3 says that it is no zombie.
fn stat(pid: u32) -> Option<(u32, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name may hold spaces and parentheses: fields count from behind the last one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some((fields.get(2)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

/// A fresh name part that nobody else uses: 16 hexadecimal digits.
///
/// # Errors
/// Of `getrandom(2)`.
pub fn nonce() -> io::Result<String> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// A random UUID (RFC 9562, version 4).
///
/// # Errors
/// Of `getrandom(2)`.
pub fn uuid() -> io::Result<String> {
    let mut text = format!("{}{}", nonce()?, nonce()?);
    text.replace_range(12..13, "4");
    text.replace_range(
        16..17,
        ["8", "9", "a", "b"][text[16..17].bytes().next().map_or(0, |b| b as usize % 4)],
    );
    Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recreated_file_is_another_file_even_under_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "a").unwrap();
        let first = Identity::at(&path).unwrap();
        assert_eq!(first, Identity::of(fs::File::open(&path).unwrap()).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a").unwrap();
        assert_ne!(first, Identity::at(&path).unwrap());
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = std::process::id();
        assert!(process_start(me).unwrap() > process_start(1).unwrap_or(0));
        assert_eq!(process_start(u32::MAX), None);
    }
}
