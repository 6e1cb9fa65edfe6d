//! What this host boots guests with, for programs that are no agent: the QEMU on PATH, and the kernels that
//! `fsdyno guest setup` put into a cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_machine::Qemu;
use fsdyno_spec::outcome::Reason;

/// The cache: what FSDYNO_CACHE names, else root's, else the user's own.
pub fn cache() -> PathBuf {
    let named = std::env::var_os("FSDYNO_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/fsdyno");
    let root = Path::new("/var/cache/fsdyno");
    named.unwrap_or_else(|| if root.join("kernels").exists() { root.to_path_buf() } else { home() })
}

/// QEMU, or why there is none.
pub fn qemu() -> Result<Qemu, Reason> {
    let output = Command::new(Qemu::PROGRAM).arg("--version").output().ok();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    Qemu::of(version.as_ref().map(|_| Path::new(Qemu::PROGRAM)), version.as_deref())
}
