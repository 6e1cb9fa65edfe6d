//! What a file system asks the stack to do, as values: this crate describes, `stack` acts.

/// A program with its arguments, started without a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Name of the program, to be found on the path (`/usr/sbin` and `/sbin` included).
    pub program: String,
    /// Its arguments, without the program.
    pub args: Vec<String>,
}

/// A mount by `fsopen`, `fsconfig`, `fsmount`, `move_mount`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountPlan {
    /// Name given to `fsopen`.
    pub fstype: String,
    /// Value of `source`: the device, or a word where there is none (`tmpfs`).
    pub source: String,
    /// Parameters for `fsconfig` in order: a flag (no value) or a string. `source` is not repeated here.
    pub params: Vec<(String, Option<String>)>,
    /// Attributes of the mount rather than of the file system (`MOUNT_ATTR_*`), spelt as `mount -o`
    /// and mountinfo do: `noatime`, `nodev`, `nosuid`.
    pub attributes: Vec<String>,
    /// The flag `ro` for `fsconfig` and `MOUNT_ATTR_RDONLY` for `fsmount`.
    pub read_only: bool,
}
