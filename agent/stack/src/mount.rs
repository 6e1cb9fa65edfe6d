//! Mounting by `fsopen`, `fsconfig`, `fsmount`, `move_mount`: the kernel's own messages come back
//! with an error, and the mount's identity is known before it has a place. What the kernel does not
//! serve itself is mounted by a helper program (FUSE), which lives as long as the mount.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_filesystems::{CommandLine, MountPlan, VERSION};
use fsdyno_probe::counters::{Clock, Took};
use fsdyno_spec::outcome::Outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use serde_json::json;

use crate::companion::Companion;
use crate::failure::Failure;
use crate::identity::MountId;
use crate::ledger::{Entry, Ledger};
use crate::mountinfo::{self, MountLine};
use crate::patience;
use crate::settings::{self, Facts};
use crate::tool;

/// How long an unmount is tried while the kernel says busy: closing files may be on their way.
const BUSY: Duration = Duration::from_secs(3);

/// How long a helper may take to mount, or to bring everything to the device after the unmount.
const HELPER: Duration = Duration::from_secs(120);

/// A mount of ours.
#[derive(Debug)]
pub struct Mounted {
    /// Where.
    pub point: PathBuf,
    /// Which.
    pub id: MountId,
    /// Its own read-ahead attribute; none where there is none.
    pub read_ahead: Option<PathBuf>,
    /// What the kernel's own calls, or the helper's run until the mount answered, took; without our
    /// records and read-backs.
    pub took: Took,
    /// The program that serves it.
    helper: Option<Companion>,
    /// The daemon that works on it.
    daemon: Option<Companion>,
}

/// Mounts at `point`, and starts the daemon that the plan has beside it.
///
/// # Errors
/// `Unsupported` if the kernel has no such file system, or a program is missing; else `Failed`, with the
/// kernel's or the program's messages. Then nothing is mounted.
pub fn mount(ledger: &mut Ledger, plan: &MountPlan, point: &Path) -> Result<(Mounted, Facts), Failure> {
    let (mut mounted, mut facts) = match &plan.helper {
        Some(helper) => by_helper(ledger, helper, point)?,
        None => by_kernel(ledger, plan, point)?,
    };
    facts.extend(plan.stated.iter().map(|(name, value)| (name.clone(), json!(value))));
    if let Some(daemon) = &plan.daemon {
        let daemon = daemon.at(&point.to_string_lossy());
        let started = Companion::start_daemon(&daemon).and_then(|started| {
            // Dropped, and so killed, if it cannot be recorded.
            started
                .record(ledger)
                .map_err(|error| Failure::io("cannot record a daemon of", point, &error))?;
            Ok(started)
        });
        match started {
            Ok(started) => {
                told_of(&mut facts, "daemon", &daemon.program, &started);
                mounted.daemon = Some(started);
            }
            Err(failure) => {
                mounted.unmount()?;
                return Err(failure);
            }
        }
    }
    Ok((mounted, facts))
}

/// Records a program beside the mount: its command and version.
fn told_of(facts: &mut Facts, role: &str, program: &str, running: &Companion) {
    facts.insert(role.to_string(), json!(running.argv));
    if let Ok(output) = tool::ask(program, &[VERSION]) {
        let said = [output.stdout, output.stderr].concat();
        let line = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_string();
        facts.insert(format!("{role}_version"), json!(line));
    }
}

/// Starts a program that mounts at `point` and stays; the mount is found in mountinfo.
fn by_helper(ledger: &mut Ledger, helper: &CommandLine, point: &Path) -> Result<(Mounted, Facts), Failure> {
    let io = |error: io::Error| Failure::io("cannot mount at", point, &error);
    let at_point = || -> io::Result<Vec<MountLine>> {
        Ok(mountinfo::read()?.into_iter().filter(|line| line.point == point).collect())
    };
    let before: Vec<_> = at_point().map_err(io)?.into_iter().map(|line| line.id).collect();
    let mut table = File::open("/proc/thread-self/mountinfo").map_err(io)?;
    let command = helper.at(&point.to_string_lossy());
    let (clock, begin) = (Clock::start(&[]), Instant::now());
    let running = Companion::start(&command)?;
    let line = loop {
        // Read to its end first: what comes afterwards is then announced.
        io::copy(&mut table, &mut io::sink()).and_then(|_| table.rewind()).map_err(io)?;
        if let Some(line) = at_point().map_err(io)?.into_iter().find(|line| !before.contains(&line.id)) {
            break line;
        }
        if running.has_ended() || begin.elapsed() > HELPER {
            let how = if running.has_ended() { "ended without a mount" } else { "did not mount in time" };
            let message = format!("{} {how}{}", helper.program, running.last_words());
            return Err(Failure::failed(message, "look at its message, and into the kernel log"));
        }
        let mut fds = [PollFd::new(&table, PollFlags::PRI), PollFd::new(running.pidfd(), PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        match poll(&mut fds, Some(&patience)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(io(errno.into())),
        }
    };
    // Asking for its root waits until the helper answers.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let id = open(point, flags, Mode::empty()).map_err(io::Error::from).and_then(MountId::of);
    let took = clock.took(&running.processes());
    let id = id.and_then(|id| {
        let same = if id.id == line.id { Ok(id) } else { Err(io::Error::other("somebody mounted over it")) };
        running.record(ledger)?;
        ledger.record(&Entry::Mount { point: point.to_path_buf(), id })?;
        same
    });
    let id = id.map_err(|error| {
        let _ = unmount(point, UnmountFlags::NOFOLLOW);
        Failure::io("cannot mount at", point, &io::Error::other(format!("{error}{}", running.last_words())))
    })?;
    let mut facts = facts(id, point).map_err(io)?;
    told_of(&mut facts, "helper", &helper.program, &running);
    let own = Path::new("/sys/class/bdi").join(format!("{}-{}", line.device, line.fstype));
    let read_ahead = Some(own.join("read_ahead_kb")).filter(|path| path.exists());
    let helper = Some(running);
    Ok((Mounted { point: point.to_path_buf(), id, read_ahead, took, helper, daemon: None }, facts))
}

/// Mounts by the kernel's calls; the ledger has the mount's id before it is attached at `point`.
fn by_kernel(ledger: &mut Ledger, plan: &MountPlan, point: &Path) -> Result<(Mounted, Facts), Failure> {
    let name = &plan.fstype;
    let before = settings::all_bdi();
    let clock = Clock::start(&[]);
    let context = fsopen(name.as_str(), FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| match errno {
        Errno::NODEV => Failure::new(
            Outcome::Unsupported,
            format!("this kernel has no file system {name}"),
            "load its module, or use a kernel that has it (`fsdyno env` tells)",
        ),
        other => said_no(None, plan, "the file system", other),
    })?;
    let told = |what: &str, errno| said_no(Some(&context), plan, what, errno);
    let set = |key: &str, value: Option<&str>| match value {
        Some(value) => fsconfig_set_string(context.as_fd(), key, value),
        None => fsconfig_set_flag(context.as_fd(), key),
    };
    set("source", Some(&plan.source)).map_err(|e| told("the source", e))?;
    for (key, value) in &plan.params {
        set(key, value.as_deref()).map_err(|e| told(&format!("the option {key}"), e))?;
    }
    let mut attributes = MountAttrFlags::empty();
    if plan.read_only {
        set("ro", None).map_err(|e| told("the option ro", e))?;
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    for word in &plan.attributes {
        attributes |= attribute(word).ok_or_else(|| {
            let advice = "use noatime, nodiratime, strictatime, relatime, nodev, nosuid or noexec";
            Failure::failed(format!("`{word}` is no attribute of a mount"), advice)
        })?;
    }
    fsconfig_create(context.as_fd()).map_err(|e| told("the mount", e))?;
    let tree = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(|e| told("the mount", e))?;
    let mut took = clock.took(&[]);
    let io = |error: io::Error| Failure::io("cannot mount at", point, &error);
    let id = MountId::of(&tree).map_err(io)?;
    ledger.record(&Entry::Mount { point: point.to_path_buf(), id }).map_err(io)?;
    let clock = Clock::start(&[]);
    move_mount(&tree, "", CWD, point, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|errno| io(errno.into()))?;
    took += clock.took(&[]);
    let mut facts = facts(id, point).map_err(io)?;
    let messages = messages(&context);
    if !messages.is_empty() {
        facts.insert("messages".into(), json!(messages));
    }
    let read_ahead = settings::read_ahead_of(point, &plan.fstype, &before);
    let mounted = Mounted { point: point.to_path_buf(), id, read_ahead, took, helper: None, daemon: None };
    Ok((mounted, facts))
}

fn attribute(word: &str) -> Option<MountAttrFlags> {
    Some(match word {
        "noatime" => MountAttrFlags::MOUNT_ATTR_NOATIME,
        "nodiratime" => MountAttrFlags::MOUNT_ATTR_NODIRATIME,
        "strictatime" => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
        "relatime" => MountAttrFlags::MOUNT_ATTR_RELATIME,
        "nodev" => MountAttrFlags::MOUNT_ATTR_NODEV,
        "nosuid" => MountAttrFlags::MOUNT_ATTR_NOSUID,
        "noexec" => MountAttrFlags::MOUNT_ATTR_NOEXEC,
        _ => return None,
    })
}

/// What the kernel wrote into the context, `<level> text` each; newest kernels only for some file
/// systems, so it may be empty.
fn messages(context: &OwnedFd) -> Vec<String> {
    let mut found = Vec::new();
    let mut buffer = [0u8; 1024];
    while let Ok(length @ 1..) = rustix::io::read(context, &mut buffer) {
        found.push(String::from_utf8_lossy(&buffer[..length]).trim().to_string());
    }
    found
}

fn said_no(context: Option<&OwnedFd>, plan: &MountPlan, what: &str, errno: Errno) -> Failure {
    let mut message = format!("the kernel refuses {what} of {} on {}: {errno}", plan.fstype, plan.source);
    // The level in front (`e` for errors) says nothing here.
    let bare = |text: String| text.split_once(' ').map_or(text.clone(), |(_, rest)| rest.to_string());
    let told: Vec<_> = context.map(messages).unwrap_or_default().into_iter().map(bare).collect();
    if !told.is_empty() {
        message = format!("{message}: {}", told.join("; "));
    }
    let advice = match errno {
        Errno::INVAL => "look into the kernel log for the option or superblock field that it did not take",
        Errno::PERM | Errno::ACCESS => "run as root",
        Errno::UCLEAN => "the file system is damaged: make it anew",
        Errno::BUSY => "the device is in use by somebody else",
        _ => "look into the kernel log",
    };
    Failure::failed(message, advice)
}

/// What the kernel says of a mount.
fn facts(id: MountId, point: &Path) -> io::Result<Facts> {
    let mounts = mountinfo::read()?;
    let line = mounts.into_iter().find(|m| m.id == id.id && m.point == point);
    let line = line.ok_or_else(|| io::Error::other("the mount is not in mountinfo"))?;
    Ok(Facts::from([
        ("mount_point".to_string(), json!(line.point)),
        ("mount_options".to_string(), json!(line.options)),
        ("super_options".to_string(), json!(line.super_options)),
        ("fstype".to_string(), json!(line.fstype)),
        ("source".to_string(), json!(line.source)),
        ("device_number".to_string(), json!(line.device)),
    ]))
}

impl Mounted {
    /// What is wrong if the daemon is gone though it is mounted: it is part of the configuration, and
    /// without it something else was measured.
    #[must_use]
    pub fn deserted(&self) -> Option<Failure> {
        let gone = self.daemon.as_ref().filter(|daemon| daemon.has_ended())?;
        let message =
            format!("{} ended while its file system was mounted{}", gone.argv[0], gone.last_words());
        Some(Failure::failed(message, "see the kernel log and the daemon's own messages"))
    }

    /// Ends the daemon, unmounts, and waits until the helper has let the device go. What the unmount
    /// took, without the daemon's end. While the kernel says busy it is tried again for a short time.
    ///
    /// # Errors
    /// Who still holds it, or what the kernel said.
    pub fn unmount(&self) -> Result<Took, Failure> {
        self.daemon.as_ref().map_or(Ok(()), Companion::end)?;
        let clock = Clock::start(&self.processes());
        self.take_down()?;
        let gone = self.helper.as_ref().is_none_or(|helper| helper.wait(HELPER));
        if !gone {
            let message = format!("what served {} still runs after the unmount", self.point.display());
            let advice = "see what it waits for; then run `fsdyno clean`";
            return Err(Failure::new(Outcome::TeardownFailed, message, advice));
        }
        Ok(clock.took(&self.processes()))
    }

    /// Processes beside it whose CPU use the kernel has not added to ours yet.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.helper.iter().chain(&self.daemon).flat_map(Companion::processes).collect()
    }

    /// Whether the topmost mount at the point is ours. One whose helper is dead answers nothing, and
    /// only the table still knows it.
    fn is_topmost(&self) -> bool {
        if self.helper.as_ref().is_some_and(Companion::has_ended) {
            let mounts = mountinfo::read().unwrap_or_default();
            return mounts.iter().rfind(|m| m.point == self.point).is_some_and(|m| m.id == self.id.id);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let topmost = open(&self.point, flags, Mode::empty()).map_err(io::Error::from).and_then(MountId::of);
        topmost.is_ok_and(|found| found.same(&self.id))
    }

    fn take_down(&self) -> Result<(), Failure> {
        if !self.is_topmost() {
            let message = format!("what is mounted on {} is not ours", self.point.display());
            let advice = "find out who mounted over it, and unmount that";
            return Err(Failure::new(Outcome::TeardownFailed, message, advice));
        }
        let mut last = Errno::BUSY;
        let done = patience::until(BUSY, || match unmount(&self.point, UnmountFlags::NOFOLLOW) {
            Ok(()) => true,
            Err(errno) => {
                last = errno;
                errno != Errno::BUSY
            }
        });
        match (done, last) {
            // The flag ends the loop for success and for errors other than busy alike.
            (true, Errno::BUSY) => Ok(()),
            (false, _) => {
                let holders = holders(&self.point);
                let who =
                    if holders.is_empty() { "nobody that can be seen".into() } else { holders.join(", ") };
                let message = format!("{} stays busy, held by: {who}", self.point.display());
                Err(Failure::new(
                    Outcome::TeardownFailed,
                    message,
                    "end what holds it, then run `fsdyno clean`",
                ))
            }
            (true, errno) => Err(Failure::io("cannot unmount", &self.point, &errno.into())),
        }
    }
}

/// Processes with something open, running or standing below `point`: `pid (name)`.
fn holders(point: &Path) -> Vec<String> {
    let below = |path: &Path| fs::read_link(path).is_ok_and(|target| target.starts_with(point));
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = all.filter_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let folder = process.path();
        let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let holds = ["cwd", "root", "exe"].iter().any(|link| below(&folder.join(link)))
            || files.map(|f| f.path()).any(|f| below(&f));
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        holds.then(|| format!("{pid} ({})", name.trim()))
    });
    found.collect()
}
