//! Work that a host does by itself and that may disturb its disks: timers and services that systemd starts,
//! and jobs of cron. Names and the files that enable them; what is in those is nobody's business here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fsdyno_spec::record::Timer;

/// Where units are enabled by links in folders `*.wants`; what comes first may mask what follows.
const UNITS: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// Services that wake up by a clock of their own.
const SERVICES: [&str; 2] = ["smartd.service", "smartmontools.service"];

/// Folders of cron, and whether a file in them must be executable to be run.
const CRON: [(&str, bool); 5] = [
    ("etc/cron.d", false),
    ("etc/cron.hourly", true),
    ("etc/cron.daily", true),
    ("etc/cron.weekly", true),
    ("etc/cron.monthly", true),
];

/// What the host below `root` (`/`) does by itself, sorted by name. Units count only if systemd runs.
#[must_use]
pub fn timers(root: &Path) -> Vec<Timer> {
    let mut found: Vec<Timer> = Vec::new();
    // As sd_booted(3).
    let booted = root.join("run/systemd/system").is_dir();
    for file in UNITS.iter().filter(|_| booted).flat_map(|folder| enabled(&root.join(folder))) {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
        let counts = name.ends_with(".timer") || SERVICES.contains(&name);
        if counts && !found.iter().any(|timer| timer.name == name) && !is_masked(root, name) {
            found.push(timer(root, name, &file));
        }
    }
    for (folder, executable) in CRON {
        for file in files(&root.join(folder)) {
            let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
            let runs = fs::metadata(&file)
                .is_ok_and(|meta| meta.is_file() && (!executable || meta.permissions().mode() & 0o111 != 0));
            if runs && !is_left_over(name) {
                found.push(timer(root, name, &file));
            }
        }
    }
    found.sort_by(|a, b| (&a.name, &a.from).cmp(&(&b.name, &b.from)));
    found
}

fn timer(root: &Path, name: &str, file: &Path) -> Timer {
    let below = file.strip_prefix(root).unwrap_or(file);
    Timer { name: name.to_string(), from: Path::new("/").join(below).display().to_string() }
}

/// Entries of a folder; none if it cannot be read.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Links in the folders `*.wants` and `*.requires` of a folder of units.
fn enabled(units: &Path) -> Vec<PathBuf> {
    let pulls = |folder: &PathBuf| {
        folder.extension().is_some_and(|extension| extension == "wants" || extension == "requires")
    };
    files(units).iter().filter(|folder| pulls(folder)).flat_map(|folder| files(folder)).collect()
}

/// Whether the administrator linked the unit to /dev/null, so that nothing starts it.
fn is_masked(root: &Path, name: &str) -> bool {
    UNITS[..2].iter().any(|folder| {
        fs::read_link(root.join(folder).join(name)).is_ok_and(|target| target == Path::new("/dev/null"))
    })
}

/// Files of package managers and editors, which cron does not run.
fn is_left_over(name: &str) -> bool {
    let ends = ["~", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".rpmsave", ".rpmnew", ".rpmorig", ".swp"];
    name.starts_with('.') || ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file(root: &Path, name: &str, mode: u32) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(&path, "secret").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn link(root: &Path, name: &str, target: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        symlink(target, path).expect("a link");
    }

    fn host() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let unit = |name: &str| file(root, &format!("usr/lib/systemd/system/{name}"), 0o644);
        for name in ["fstrim.timer", "mdcheck_start.timer", "e2scrub_all.timer", "smartmontools.service"] {
            unit(name);
        }
        link(root, "etc/systemd/system/timers.target.wants/fstrim.timer", "/usr/lib/…/fstrim.timer");
        link(root, "etc/systemd/system/multi-user.target.wants/smartmontools.service", "/usr/lib/…");
        link(root, "etc/systemd/system/multi-user.target.wants/ssh.service", "/usr/lib/…");
        // Enabled by its package, and masked by the administrator.
        link(root, "usr/lib/systemd/system/timers.target.wants/e2scrub_all.timer", "../e2scrub_all.timer");
        link(root, "etc/systemd/system/e2scrub_all.timer", "/dev/null");
        file(root, "etc/cron.d/mdadm", 0o644);
        file(root, "etc/cron.d/.placeholder", 0o644);
        file(root, "etc/cron.weekly/fstrim", 0o755);
        file(root, "etc/cron.weekly/asleep", 0o644);
        file(root, "etc/cron.daily/old.dpkg-old", 0o755);
        folder
    }

    #[test]
    fn what_is_enabled_is_told_by_name_and_file_and_nothing_else_is() {
        let folder = host();
        fs::create_dir_all(folder.path().join("run/systemd/system")).expect("systemd runs");
        let found: Vec<_> = timers(folder.path()).into_iter().map(|timer| (timer.name, timer.from)).collect();
        let told = |name: &str, from: &str| (name.to_string(), from.to_string());
        assert_eq!(
            found,
            [
                told("fstrim", "/etc/cron.weekly/fstrim"),
                told("fstrim.timer", "/etc/systemd/system/timers.target.wants/fstrim.timer"),
                told("mdadm", "/etc/cron.d/mdadm"),
                told(
                    "smartmontools.service",
                    "/etc/systemd/system/multi-user.target.wants/smartmontools.service"
                ),
            ]
        );
    }

    #[test]
    fn units_of_a_host_that_systemd_does_not_run_do_nothing() {
        let folder = host();
        let names: Vec<_> = timers(folder.path()).into_iter().map(|timer| timer.name).collect();
        assert_eq!(names, ["fstrim", "mdadm"]);
        assert_eq!(timers(Path::new("/does not exist")), []);
    }
}
