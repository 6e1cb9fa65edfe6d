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
    /// A program that mounts it instead of the kernel's calls (FUSE); [`POINT`] stands for the mount point.
    pub helper: Option<CommandLine>,
    /// A daemon that runs beside the mounted file system and is part of the configuration; [`POINT`]
    /// stands for the mount point.
    pub daemon: Option<CommandLine>,
    /// What the configuration says that no table of the kernel shows (which of two drivers, that a daemon
    /// does not run): name and value, recorded with the mount.
    pub stated: Vec<(String, String)>,
}

/// Stands in the arguments of a daemon for an empty file of its own: a configuration that says nothing.
pub const EMPTY_FILE: &str = "{empty file}";

/// Stands for the mount point in the arguments of a helper or daemon.
pub const POINT: &str = "{point}";

/// Stands for the device in the arguments of a program that takes it not at the end.
pub const DEVICE: &str = "{device}";

/// By which each helper and daemon of the table prints its version.
pub const VERSION: &str = "-V";

impl CommandLine {
    /// The command with a mount point for [`POINT`].
    #[must_use]
    pub fn at(&self, point: &str) -> Self {
        let args = self.args.iter().map(|arg| if arg == POINT { point.to_string() } else { arg.clone() });
        Self { program: self.program.clone(), args: args.collect() }
    }

    /// The command as a person would type it.
    #[must_use]
    pub fn shell(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        // By hand an empty file is made where it is needed.
        let spell =
            |word: &String| if word == EMPTY_FILE { "\"$(mktemp)\"".to_string() } else { quote(word) };
        words.map(spell).collect::<Vec<_>>().join(" ")
    }
}

impl MountPlan {
    /// The `mount` command that a person would type for the same mount; the helper's own, in the
    /// background, where it has one; and the daemon's after it.
    #[must_use]
    pub fn shell(&self, target: &str) -> String {
        let mounted = match &self.helper {
            Some(helper) => format!("{} &", helper.at(target).shell()),
            None => self.mount_command(target),
        };
        match &self.daemon {
            Some(daemon) => format!("{mounted} && {}", daemon.at(target).shell()),
            None => mounted,
        }
    }

    /// Words of `mount -o` for it, in the order in which people write them.
    pub(crate) fn words(&self) -> Vec<String> {
        let read_only = self.read_only.then(|| "ro".to_string());
        let params = self.params.iter().map(spell_parameter);
        read_only.into_iter().chain(self.attributes.iter().cloned()).chain(params).collect()
    }

    fn mount_command(&self, target: &str) -> String {
        let options = self.words();
        let mut args = vec!["-t".to_string(), self.fstype.clone()];
        if !options.is_empty() {
            args.extend(["-o".to_string(), options.join(",")]);
        }
        args.extend([self.source.clone(), target.to_string()]);
        CommandLine { program: "mount".to_string(), args }.shell()
    }
}

/// A mount parameter as `mount -o` and mountinfo write it: `key=value`, or the key of a flag.
#[must_use]
pub fn spell_parameter((key, value): &(String, Option<String>)) -> String {
    value.as_ref().map_or_else(|| key.clone(), |value| format!("{key}={value}"))
}

/// A word quoted for a POSIX shell, only where it must be.
#[must_use]
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A comment for a shell about what no remount does: to change the options, by words that end before `its
/// options`, and to mount afresh. A mount that names device and point reads no `/etc/fstab`, and loses what
/// stands there.
#[must_use]
pub(crate) fn fresh_mount(change: &str, point: Option<&str>) -> String {
    match point {
        Some("/") => format!(
            "# it is the root: {change} its options in /etc/fstab and rootflags= on the kernel's command line, \
             then boot again"
        ),
        // A line's end would end the comment too.
        Some(point) if !point.contains(char::is_control) => {
            let point = quote(point);
            format!("# {change} its options in /etc/fstab, then: umount {point} && mount {point}")
        }
        _ => format!("# {change} its options in /etc/fstab, then mount it afresh"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_typed_as_people_type_it() {
        let mut plan = MountPlan { fstype: "ext4".into(), source: "/dev/loop0".into(), ..Default::default() };
        assert_eq!(plan.shell("/mnt"), "mount -t ext4 /dev/loop0 /mnt");
        plan.attributes = vec!["noatime".into()];
        plan.params = vec![("data".into(), Some("writeback".into())), ("discard".into(), None)];
        assert_eq!(
            plan.shell("/mnt a"),
            "mount -t ext4 -o noatime,data=writeback,discard /dev/loop0 '/mnt a'"
        );
    }

    #[test]
    fn a_helper_replaces_the_mount_and_a_daemon_follows_it() {
        let line = |program: &str| {
            let args = vec!["-x".into(), "/dev/loop0".into(), POINT.into()];
            Some(CommandLine { program: program.into(), args })
        };
        let mut plan = MountPlan { fstype: "any".into(), source: "/dev/loop0".into(), ..Default::default() };
        plan.daemon = line("cleaner");
        assert_eq!(plan.shell("/m"), "mount -t any /dev/loop0 /m && cleaner -x /dev/loop0 /m");
        plan = MountPlan { helper: line("driver"), ..Default::default() };
        assert_eq!(plan.shell("/m a"), "driver -x /dev/loop0 '/m a' &");
    }

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(quote("^has_journal"), "'^has_journal'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("/dev/disk/by-id/a:b"), "/dev/disk/by-id/a:b");
    }
}
