//! Undoing what a dead agent left: each ledger that nobody holds is replayed backwards. Nothing is
//! undone by its name: the recorded identity is verified first, and what is not ours any more is
//! left as it is. Running it again is harmless.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use fsdyno_spec::event::Cleaned;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, open, unlinkat};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::array;
use crate::backing::wipe_signatures;
use crate::disk;
use crate::folder;
use crate::identity::{Identity, MountId, boot_id, process_group, process_start};
use crate::ledger::{self, Entry};
use crate::loopdev;
use crate::lvm;
use crate::mountinfo;
use crate::patience;
use crate::rig::ledgers;
use crate::safety;
use crate::settings;
use crate::sysfs::{self, BlockDevice};

/// How long what the kernel is already undoing (a dying namespace, an autoclear) may take.
const VANISHING: Duration = Duration::from_secs(5);

/// What became of one entry.
enum Fate {
    /// Undone, with a sentence.
    Undone(String),
    /// Nothing there any more, as expected.
    Gone,
    /// There is something, but it is not ours, or not here.
    Left(String),
    /// Ours, and it resists.
    Failed(String),
}

/// Undoes what the ledgers below `state` hold, except those of living agents.
#[must_use]
pub fn clean(state: &Path) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut paths: Vec<_> = fs::read_dir(ledgers(state))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    // `trial-…` come after `rig-…`, and what a trial made rests on what the rig made.
    paths.sort();
    paths.reverse();
    for path in paths {
        replay(state, &path, &mut cleaned);
    }
    // While nobody has the rig, nobody makes a ledger: what has no name yet is a dead agent's.
    let lock = OpenOptions::new().read(true).write(true).open(state.join("rig.lock"));
    if let Ok(lock) = lock
        && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        unfinished(&ledgers(state));
    }
    cleaned
}

/// Removes ledgers that never got their name: nothing was made under them. Only for the holder of
/// the rig's lock, as nobody else makes any.
pub(crate) fn unfinished(folder: &Path) {
    for name in sysfs::names_in(folder).iter().filter(|name| name.starts_with(".new-")) {
        let _ = fs::remove_file(folder.join(name));
    }
}

fn replay(state: &Path, path: &Path, cleaned: &mut Cleaned) {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        // Another cleaner, or its own agent, was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return cleaned.failed.push(format!("{}: {error}", path.display())),
    };
    let holder = || ledger::read(&fs::read_to_string(path).ok()?).ok().map(|(header, _)| header.pid);
    if ledger::lock(&file, holder).is_err() {
        cleaned.live += 1;
        return;
    }
    // It may have been finished and removed between open and lock.
    if !matches!((Identity::of(&file), Identity::at(path)), (Ok(a), Ok(b)) if a == b) {
        return;
    }
    let text = io::read_to_string(&file).unwrap_or_default();
    let (header, entries) = match ledger::read(&text) {
        Ok(read) => read,
        Err(problem) => {
            return cleaned
                .failed
                .push(format!("{} cannot be read: {problem}; remove it by hand", path.display()));
        }
    };
    let same_boot = header.boot == boot_id();
    let mut whole = true;
    for (n, entry) in entries.iter().enumerate().rev() {
        // An intent that was followed by what came of it is judged by the latter.
        if superseded(entry, &entries[n + 1..]) {
            continue;
        }
        match undo(state, entry, same_boot) {
            Fate::Undone(what) => cleaned.undone.push(format!("{name}: {what}")),
            Fate::Gone => {}
            Fate::Left(why) => cleaned.left.push(format!("{name}: {why}")),
            Fate::Failed(why) => {
                whole = false;
                cleaned.failed.push(format!("{name}: {why}"));
            }
        }
    }
    if whole && let Err(error) = fs::remove_file(path) {
        cleaned.failed.push(format!("{}: {error}", path.display()));
    }
}

fn superseded(entry: &Entry, later: &[Entry]) -> bool {
    later.iter().any(|l| match (entry, l) {
        (Entry::Folder { path, made: None }, Entry::Folder { path: p, made: Some(_) }) => p == path,
        (Entry::LoopNumber { number }, Entry::NotOurLoopNumber { number: n }) => n == number,
        _ => false,
    })
}

/// Whether a name is of the kind that we give. Nothing else is removed from a folder, whatever a
/// ledger says and whoever wrote it.
fn our_kind_of_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("fsdyno-"))
}

fn undo(state: &Path, entry: &Entry, same_boot: bool) -> Fate {
    match entry {
        Entry::Folder { path, .. } | Entry::File { path, .. } if !our_kind_of_name(path) => {
            Fate::Left(format!("{} has no name of ours", path.display()))
        }
        Entry::Folder { path, made } => {
            let now = |made: Identity| Identity::at(path).map_or(made, |found| made.after_reboot(found));
            undo_folder(path, made.map(|made| if same_boot { made } else { now(made) }).as_ref())
        }
        Entry::File { path, made } => undo_file(path, made.as_ref()),
        Entry::Superblock { disk, size, serial, uuid } => {
            undo_superblock(state, disk, *size, serial.as_ref(), uuid)
        }
        Entry::Array { uuid } => undo_layer(array::undo(uuid)),
        Entry::VolumeGroup { name } => undo_layer(lvm::undo(name)),
        Entry::NotOurLoopNumber { .. } => Fate::Gone,
        _ if !same_boot => Fate::Gone,
        Entry::Mount { point, id } => undo_mount(point, id),
        Entry::Loop { token, backing, name } => undo_loop(token, backing, name),
        Entry::LoopNumber { number } => undo_number(*number),
        Entry::Process { pid, start } => undo_process(*pid, *start),
        Entry::Dirty { limit, found, ours } => match limit.restore(*found, ours) {
            Ok(true) => Fate::Undone(format!("put vm.{} back to {found:?}", limit.name())),
            Ok(false) => Fate::Gone,
            Err(failure) => Fate::Failed(failure.to_string()),
        },
        Entry::Queue { disk, sequence, size, serial, attribute, old } => {
            match same_disk(disk, *sequence, *size, serial.as_ref()) {
                Same::Yes => undo_queue(disk, attribute, old),
                Same::No => Fate::Gone,
                Same::Unknown => {
                    Fate::Left(format!("{attribute} of {disk}: whether it is the same disk cannot be told"))
                }
            }
        }
    }
}

/// What undoing an array or a volume group came to.
fn undo_layer(done: Result<Option<String>, String>) -> Fate {
    match done {
        Ok(Some(what)) => Fate::Undone(what),
        Ok(None) => Fate::Gone,
        Err(why) => Fate::Failed(why),
    }
}

fn undo_folder(path: &Path, made: Option<&Identity>) -> Fate {
    let shown = path.display();
    match made {
        // Made or not, ours or not, is not known: an empty one with our nonce in its name goes.
        None => match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
            Ok(()) => Fate::Undone(format!("removed the empty folder {shown}")),
            Err(rustix::io::Errno::NOENT) => Fate::Gone,
            Err(errno) => {
                Fate::Left(format!("{shown} was announced, but what is there is not ours: {errno}"))
            }
        },
        Some(identity) => {
            // A mount of the dying namespace does not show here, but keeps the folder busy.
            let mut last = Ok(false);
            patience::until(VANISHING, || {
                last = folder::remove(path, identity);
                !matches!(&last, Err(error) if error.raw_os_error() == Some(libc::EBUSY))
            });
            match last {
                Ok(true) => Fate::Undone(format!("removed {shown}")),
                Ok(false) if path.symlink_metadata().is_ok() => {
                    Fate::Left(format!("{shown} is not the folder that we made"))
                }
                Ok(false) => Fate::Gone,
                Err(error) => Fate::Failed(format!("cannot remove {shown}: {error}")),
            }
        }
    }
}

fn undo_file(path: &Path, made: Option<&Identity>) -> Fate {
    let shown = path.display();
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Fate::Gone,
        Err(errno) => return Fate::Left(format!("{shown}: {errno}")),
    };
    let ours = match (made, found.metadata()) {
        (Some(identity), Ok(meta)) => meta.is_file() && Identity::of(&found).is_ok_and(|i| i == *identity),
        // Between the announcement and the removal of its name a backing file is empty.
        (None, Ok(meta)) => meta.is_file() && meta.len() == 0 && ours_by_uid(&meta),
        (_, Err(_)) => false,
    };
    if !ours {
        return Fate::Left(format!("{shown} is not the file that we made"));
    }
    match fs::remove_file(path) {
        Ok(()) => Fate::Undone(format!("removed {shown}")),
        Err(error) => Fate::Failed(format!("cannot remove {shown}: {error}")),
    }
}

fn ours_by_uid(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(meta) == rustix::process::geteuid().as_raw()
}

/// A mount dies with its agent's namespace, so it is here only if that was this one.
fn undo_mount(point: &Path, id: &MountId) -> Fate {
    let shown = point.display();
    if !mountinfo::read().unwrap_or_default().iter().any(|m| m.point == point) {
        return Fate::Gone;
    }
    // Opening the path reaches the topmost mount there, the one that an unmount would take.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let topmost = open(point, flags, Mode::empty()).map_err(io::Error::from).and_then(MountId::of);
    match topmost {
        Ok(found) if found.same(id) => match unmount(point, UnmountFlags::NOFOLLOW) {
            Ok(()) => Fate::Undone(format!("unmounted {shown}")),
            Err(errno) => Fate::Failed(format!("cannot unmount {shown}: {errno}")),
        },
        Ok(_) => Fate::Left(format!("what is mounted on {shown} is not ours")),
        Err(error) => Fate::Left(format!("{shown}: {error}")),
    }
}

/// The number of our loop device, if it is bound: known by token and backing file.
fn find_loop(token: &str, backing: &Identity, name: &str) -> Option<(u32, File)> {
    loopdev::candidates(name).into_iter().find_map(|number| {
        let device = File::open(loopdev::path(number)).ok()?;
        let status = loopdev::status(&device).ok()??;
        let ours = status.token == token && status.dev == backing.dev && status.ino == backing.ino;
        ours.then_some((number, device))
    })
}

fn undo_loop(token: &str, backing: &Identity, name: &str) -> Fate {
    // The kernel takes it down by itself when the last holder is gone; give it the time.
    if patience::until(VANISHING / 2, || find_loop(token, backing, name).is_none()) {
        return Fate::Gone;
    }
    let Some((number, device)) = find_loop(token, backing, name) else { return Fate::Gone };
    if let Err(error) = loopdev::clear(&device) {
        return Fate::Failed(format!("cannot detach /dev/loop{number}: {error}"));
    }
    drop(device);
    if patience::until(VANISHING / 2, || find_loop(token, backing, name).is_none()) {
        Fate::Undone(format!("detached /dev/loop{number}"))
    } else {
        Fate::Failed(format!("/dev/loop{number} ({token}) is still in use by somebody"))
    }
}

/// Takes a number of ours out of the pool; false if it is still there.
pub(crate) fn remove_number(number: u32) -> bool {
    let result = loopdev::remove(number);
    result.is_ok() || !loopdev::exists(number)
}

fn undo_number(number: u32) -> Fate {
    if !loopdev::exists(number) {
        return Fate::Gone;
    }
    // The kernel refuses for one that is bound or open: then somebody uses it, and it is theirs.
    if patience::until(VANISHING / 5, || loopdev::bound(number) || loopdev::remove(number).is_ok())
        && !loopdev::exists(number)
    {
        return Fate::Undone(format!("removed /dev/loop{number}"));
    }
    Fate::Left(format!("/dev/loop{number} is in use by somebody else now"))
}

fn undo_process(pid: u32, start: u64) -> Fate {
    // The descriptor first, then the look at the start time: if that is right, the descriptor is it.
    let Some(leader) = handle(pid).filter(|_| process_start(pid) == Some(start)) else { return Fate::Gone };
    let alive = || process_start(pid) == Some(start);
    // Its children first: while it lives, nobody else's group can have its number.
    patience::until(VANISHING, || {
        let members = members(pid);
        for (member, handle) in &members {
            if process_group(*member) == Some(pid) && alive() {
                let _ = pidfd_send_signal(handle, Signal::KILL);
            }
        }
        members.is_empty() || !alive()
    });
    let _ = pidfd_send_signal(&leader, Signal::KILL);
    if patience::until(VANISHING, || !alive()) {
        Fate::Undone(format!("ended process {pid}"))
    } else {
        Fate::Failed(format!("process {pid} does not die: it is stuck in the kernel"))
    }
}

/// A descriptor of a process: it never becomes another's, as a number does.
fn handle(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().filter(|&pid| pid > 0)?;
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Living processes in a group, without its leader.
fn members(group: u32) -> Vec<(u32, OwnedFd)> {
    let all = sysfs::names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
    all.filter(|&pid: &u32| pid != group && process_group(pid) == Some(group))
        .filter_map(|pid| Some((pid, handle(pid)?)))
        .collect()
}

enum Same {
    Yes,
    No,
    Unknown,
}

/// Whether the disk of this kernel name is the recorded one. `diskseq` decides; without it (kernels
/// before 5.15) size and serial number must agree, and a disk without serial number is not known.
fn same_disk(disk: &str, sequence: u64, size: Option<u64>, serial: Option<&String>) -> Same {
    if disk.contains('/') || !sysfs::class(disk).exists() {
        return Same::No;
    }
    let now = sysfs::number(&sysfs::class(disk).join("diskseq")).unwrap_or(0);
    if now != 0 && sequence != 0 {
        return if now == sequence { Same::Yes } else { Same::No };
    }
    let agree = serial.is_some()
        && size.is_some()
        && (disk::serial_of(disk).as_ref(), disk::whole_size(disk)) == (serial, size);
    if agree { Same::Yes } else { Same::Unknown }
}

fn undo_queue(disk: &str, attribute: &str, old: &str) -> Fate {
    match settings::get(disk, attribute) {
        Ok(found) if found == old => Fate::Gone,
        Err(_) => Fate::Gone,
        Ok(_) => match settings::put(disk, attribute, old) {
            Ok(()) => Fate::Undone(format!("put {attribute} of {disk} back to {old}")),
            Err(failure) => Fate::Failed(failure.to_string()),
        },
    }
}

fn undo_superblock(state: &Path, link: &Path, size: u64, serial: Option<&String>, uuid: &str) -> Fate {
    let shown = link.display();
    let Ok(device) = safety::resolve(link) else {
        return Fate::Left(format!("{shown}, with a file system of ours, is not connected"));
    };
    let same = |now: &BlockDevice| now.size.0 == size && disk::serial(now).as_ref() == serial;
    if !same(&device) {
        return Fate::Left(format!("{shown} is another disk now"));
    }
    wipe_ours(state, &device, same, uuid).unwrap_or_else(|why| Fate::Left(format!("{shown}: {why}")))
}

/// Whether probing finds this UUID on a device that somebody holds.
fn carries(device: &BlockDevice, uuid: &str) -> bool {
    disk::signatures_at(&device.path)
        .is_ok_and(|found| found.iter().any(|(key, value)| key == "UUID" && value.eq_ignore_ascii_case(uuid)))
}

fn wipe_ours(
    state: &Path,
    device: &BlockDevice,
    same: impl Fn(&BlockDevice) -> bool,
    uuid: &str,
) -> Result<Fate, String> {
    // Held first, so that what is then found on this descriptor is what is wiped.
    let file = match disk::open_exclusive(device) {
        Ok(file) => file,
        // Not somebody's, but what we put there: an array or a volume that stands, or a mount.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) && carries(device, uuid) => {
            return Ok(Fate::Failed(format!(
                "{} is in use, with what we put on it: see what holds it (lsblk), end that, and run it again",
                device.path.display()
            )));
        }
        Err(error) => return Err(error.to_string()),
    };
    let now = disk::opened(&file).map_err(|error| error.to_string())?;
    if now.kernel_name != device.kernel_name || !same(&now) {
        return Err("it became another disk in this moment".to_string());
    }
    let found = disk::signatures_on(&file).map_err(|failure| failure.to_string())?;
    if found.is_empty() {
        return Ok(Fate::Gone);
    }
    let ours = |found: &str| {
        found.eq_ignore_ascii_case(uuid)
            && disk::owned(state).iter().any(|o| o.uuid.eq_ignore_ascii_case(uuid))
    };
    safety::blank_or_ours(&device.path, &found, ours).map_err(|refused| refused.to_string())?;
    wipe_signatures(&file, device.size.0).map_err(|error| error.to_string())?;
    Ok(Fate::Undone(format!("wiped our file system from {}", device.path.display())))
}
