//! Reading `/proc/…/mountinfo`: the kernel's own word on what is mounted where and how.
//! Always that of the calling thread: a rig lives in a mount namespace of its own.

use std::fs;
use std::io;
use std::path::PathBuf;

/// One line, `proc_pid_mountinfo(5)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// Mount id (recycled).
    pub id: u64,
    /// `major:minor` of the files on it.
    pub device: String,
    /// Which directory of the file system is its root.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of the mount.
    pub options: String,
    /// Driver, as it names itself.
    pub fstype: String,
    /// What was mounted.
    pub source: String,
    /// Options of the file system.
    pub super_options: String,
}

/// All mounts that this thread sees, in the order of mounting.
///
/// # Errors
/// If /proc is not there.
pub fn read() -> io::Result<Vec<MountLine>> {
    Ok(fs::read_to_string("/proc/thread-self/mountinfo")?.lines().filter_map(parse).collect())
}

/// Parses one line; none if it is malformed.
#[must_use]
pub fn parse(line: &str) -> Option<MountLine> {
    // The optional fields in the middle end with a lone dash.
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    Some(MountLine {
        id: left.first()?.parse().ok()?,
        device: (*left.get(2)?).to_string(),
        root: unescape(left.get(3)?).into(),
        point: unescape(left.get(4)?).into(),
        options: (*left.get(5)?).to_string(),
        fstype: (*right.first()?).to_string(),
        source: unescape(right.get(1)?),
        super_options: (*right.get(2)?).to_string(),
    })
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match (bytes[at], digits) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                at += 4;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_line_with_spaces_and_optional_fields_is_read() {
        let line =
            r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.point, PathBuf::from("/mnt 2"));
        assert_eq!((mount.id, mount.fstype.as_str(), mount.source.as_str()), (36, "ext3", "/dev/root"));
        assert_eq!(mount.super_options, "rw,errors=continue");
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn the_root_is_always_mounted() {
        assert!(read().unwrap().iter().any(|m| m.point == Path::new("/")));
    }
}
