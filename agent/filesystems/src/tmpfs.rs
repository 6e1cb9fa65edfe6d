//! tmpfs: the row that shows the machine without a disk.

use crate::filesystem::FileSystem;
use crate::options::{EXTRA_MOUNT, NOATIME};

pub(crate) static TMPFS: FileSystem = FileSystem {
    name: "tmpfs",
    summary: "memory only, no disk at all: the limit that no file system here can pass",
    fstype: "tmpfs",
    disk: None,
    barrier_off: None,
    flushes: true,
    counts_inodes: true,
    notes: &[
        "Keeps everything in memory: nothing is made, checked, flushed or cold. Its size is the device's size.",
    ],
    options: &[NOATIME, EXTRA_MOUNT],
    refuse: |_| Ok(()),
    unsupported: |_, _| None,
    adjust_mount: |_, _, _| {},
    modules: &[],
    driver: |_, _| None,
    driver_hint: |_| Some("tmpfs".to_string()),
    advise: None,
};
