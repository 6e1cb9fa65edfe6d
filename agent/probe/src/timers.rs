//! Work that a host does by itself and that may disturb its disks: timers and services that systemd starts,
//! and jobs of cron. Names and the files that enable them; what is in those is nobody's business here.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fsdyno_spec::outcome::Reason;
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

/// Jobs by line, each with its user.
const CRONTAB: &str = "etc/crontab";

/// Commands of cron's lines that are no work. What run-parts runs is in the folders above.
const NO_WORK: [&str; 11] =
    ["[", "cd", "done", "echo", "exit", "export", "fi", "run-parts", "sleep", "test", "true"];

/// Words that a command follows.
const BEFORE: [&str; 14] = [
    "!", "chronic", "do", "else", "env", "exec", "if", "ionice", "nice", "nohup", "then", "time", "timeout",
    "while",
];

/// What a host does by itself, as far as that can be seen.
#[derive(Debug, Default, PartialEq)]
pub struct Jobs {
    /// Sorted by name.
    pub timers: Vec<Timer>,
    /// Why there may be more.
    pub gap: Option<Reason>,
}

/// What the host below `root` (`/`) does by itself. Units count only if systemd runs: what another manager of
/// services starts is not seen.
#[must_use]
pub fn timers(root: &Path) -> Jobs {
    let mut unread = Vec::new();
    let mut found: Vec<Timer> = Vec::new();
    // As sd_booted(3).
    let booted = root.join("run/systemd/system").is_dir();
    let units = UNITS.iter().filter(|_| booted);
    for file in units.flat_map(|folder| enabled(&root.join(folder), &mut unread)).collect::<Vec<_>>() {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
        let counts = name.ends_with(".timer") || SERVICES.contains(&name);
        if counts && !found.iter().any(|timer| timer.name == name) && !is_masked(root, name) {
            found.push(timer(root, name, &file));
        }
    }
    for (folder, executable) in CRON {
        for file in files(&root.join(folder), &mut unread) {
            let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
            let runs = fs::metadata(&file)
                .is_ok_and(|meta| meta.is_file() && (!executable || meta.permissions().mode() & 0o111 != 0));
            if runs && !is_left_over(name) {
                found.push(timer(root, name, &file));
            }
        }
    }
    let crontab = root.join(CRONTAB);
    let lines = fs::read(&crontab).unwrap_or_else(|error| {
        unread.extend(unseen(&crontab, &error));
        Vec::new()
    });
    let jobs = String::from_utf8_lossy(&lines).lines().flat_map(commands).collect::<Vec<_>>();
    found.extend(jobs.iter().map(|name| timer(root, name, &crontab)));
    found.sort_by(|a, b| (&a.name, &a.from).cmp(&(&b.name, &b.from)));
    found.dedup();
    Jobs { timers: found, gap: gap(booted, &unread) }
}

fn gap(booted: bool, unread: &[String]) -> Option<Reason> {
    if !unread.is_empty() {
        let message = format!("jobs of this host cannot all be read: {}", unread.join(", "));
        return Some(Reason::new(message).advise("ask as root"));
    }
    (!booted).then(|| {
        Reason::new("systemd does not run here: of what the host does by itself only cron's jobs are seen")
            .advise("ask on the host, not in a container; see what else starts jobs there")
    })
}

/// Names of the commands of a line of `/etc/crontab` (crontab(5)): five fields of time or one word like
/// `@daily`, a user, and what a shell is given. Arguments are not looked at.
fn commands(line: &str) -> Vec<String> {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Vec::new() };
    let time = if first.starts_with('@') { 1 } else { 5 };
    let is_time = first.starts_with(|letter: char| letter.is_ascii_digit() || letter == '*' || letter == '@');
    if !is_time {
        return Vec::new(); // A remark or a variable.
    }
    // The first of the fields is gone, the user is one more.
    let command: Vec<&str> = words.skip(time).collect();
    let command = command.join(" ");
    // What is quoted is given to a command.
    let plain = command.split(['\'', '"', '`']).next().unwrap_or_default();
    plain.split([';', '&', '|', '(', ')', '{', '}']).filter_map(command_name).collect()
}

/// The name of the command of a part of a line, without its folder; none if it is no work.
fn command_name(part: &str) -> Option<String> {
    let surrounds = |word: &&str| {
        let number = word.starts_with(|letter: char| letter.is_ascii_digit());
        BEFORE.contains(word) || number || word.starts_with('-') || word.contains(['=', '>', '<'])
    };
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_string();
    let found = part.split_whitespace().map(name).find(|word| !surrounds(&word.as_str()))?;
    (!found.is_empty() && !NO_WORK.contains(&found.as_str())).then_some(found)
}

fn timer(root: &Path, name: &str, file: &Path) -> Timer {
    let below = file.strip_prefix(root).unwrap_or(file);
    Timer { name: name.to_string(), from: Path::new("/").join(below).display().to_string() }
}

/// Entries of a folder; none if it is not there. What cannot be read is added to `unread`.
fn files(folder: &Path, unread: &mut Vec<String>) -> Vec<PathBuf> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            unread.extend(unseen(folder, &error));
            Vec::new()
        }
    }
}

fn unseen(path: &Path, error: &io::Error) -> Option<String> {
    let there = !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    there.then(|| format!("{} ({error})", path.display()))
}

/// Links in the folders `*.wants` and `*.requires` of a folder of units.
fn enabled(units: &Path, unread: &mut Vec<String>) -> Vec<PathBuf> {
    let pulls = |folder: &PathBuf| {
        folder.extension().is_some_and(|extension| extension == "wants" || extension == "requires")
    };
    let folders = files(units, unread);
    folders.iter().filter(|folder| pulls(folder)).flat_map(|folder| files(folder, unread)).collect()
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
        let jobs = timers(folder.path());
        assert_eq!(jobs.gap, None);
        let found: Vec<_> = jobs.timers.into_iter().map(|timer| (timer.name, timer.from)).collect();
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
    fn units_of_a_host_that_systemd_does_not_run_do_nothing_and_that_is_told() {
        let folder = host();
        let jobs = timers(folder.path());
        let names: Vec<_> = jobs.timers.into_iter().map(|timer| timer.name).collect();
        assert_eq!(names, ["fstrim", "mdadm"]);
        assert!(jobs.gap.expect("told").message.contains("systemd does not run here"));
        assert_eq!(timers(Path::new("/does not exist")).timers, []);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let folder = host();
        fs::create_dir_all(folder.path().join("run/systemd/system")).expect("systemd runs");
        // Root reads everything, but no file as a folder of jobs.
        symlink("hourly", folder.path().join("etc/hourly")).expect("a link to itself");
        symlink("../etc/hourly", folder.path().join("etc/cron.hourly")).expect("a link");
        let gap = timers(folder.path()).gap.expect("told");
        assert!(gap.message.contains("etc/cron.hourly") && gap.advice.is_some(), "{gap:?}");
    }

    #[test]
    fn lines_of_the_crontab_are_told_by_the_names_of_their_commands() {
        for (line, names) in [
            ("# m h dom mon dow user command", &[][..]),
            ("SHELL=/bin/sh", &[]),
            ("", &[]),
            ("17 *  * * *  root  cd / && run-parts --report /etc/cron.hourly", &[]),
            ("25 6 * * * root test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }", &[]),
            ("@weekly root /sbin/fstrim --all >/dev/null 2>&1", &["fstrim"]),
            ("*/5 * * * * root nice -n 19 ionice -c3 /usr/local/bin/backup --password=secret", &["backup"]),
            ("0 3 * * 0 root if [ -x /sbin/fstrim ]; then fstrim /; fi", &["fstrim"]),
            ("0 3 * * 0 root logger 'check; secret' && mdadm --monitor", &["logger"]),
            ("@daily", &[]),
            ("1 2 3", &[]),
        ] {
            assert_eq!(commands(line), names, "{line}");
        }
        let folder = host();
        file(folder.path(), "etc/crontab", 0o644);
        fs::write(folder.path().join("etc/crontab"), "0 1 * * 0 root fstrim -a\n").expect("a crontab");
        let told: Vec<_> = timers(folder.path()).timers.into_iter().map(|timer| timer.from).collect();
        assert_eq!(told, ["/etc/cron.weekly/fstrim", "/etc/crontab", "/etc/cron.d/mdadm"]);
    }
}
