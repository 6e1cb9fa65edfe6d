//! Folders and files of a dataset outside of the hot paths: making, opening, checking, syncing.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fsdyno_probe::clock::monotonic_ns;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Seconds;
use fsdyno_spec::workload::Dataset;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;

use crate::Job;
use crate::failure::Failure;
use crate::names::{DirectoryName, Layout};

/// Permissions of files and folders.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
pub(crate) const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// How folders are opened.
pub(crate) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The dataset's own folder.
pub(crate) fn top(job: &Job) -> PathBuf {
    job.root.join(job.name)
}

/// Makes the dataset's folder, which must not be there.
pub(crate) fn make_top(job: &Job) -> Result<(), Failure> {
    let path = top(job);
    match rustix::fs::mkdir(&path, FOLDER_MODE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Failure::exists(job.name, path.display())),
        Err(errno) => Err(Failure::kernel("make", path.display(), errno)),
    }
}

/// Makes all folders below it.
pub(crate) fn make_directories(job: &Job, layout: &Layout) -> Result<(), Failure> {
    for directory in 0..layout.directories {
        let path = top(job).join(DirectoryName::of(directory).as_str());
        rustix::fs::mkdir(&path, FOLDER_MODE).map_err(|e| Failure::kernel("make", path.display(), e))?;
    }
    Ok(())
}

/// Opens the dataset's folder, which must be there.
pub(crate) fn open_top(job: &Job) -> Result<OwnedFd, Failure> {
    let path = top(job);
    rustix::fs::open(&path, FOLDER, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => Failure::missing(job.name, format_args!("{} is not there", path.display())),
        _ => Failure::kernel("open", path.display(), errno),
    })
}

/// Opens a file of the dataset, which must be there and of the size that the dataset says.
pub(crate) fn open_existing(
    job: &Job,
    layout: &Layout,
    file: u64,
    flags: OFlags,
) -> Result<OwnedFd, Failure> {
    let path = layout.path(job.root, job.name, file);
    let shown = path.display();
    let open =
        rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => Failure::missing(job.name, format_args!("{shown} is not there")),
            _ if flags.contains(OFlags::DIRECT) => Failure::direct("open", shown, errno),
            _ => Failure::kernel("open", shown, errno),
        })?;
    let size =
        rustix::fs::fstat(&open).map_err(|e| Failure::kernel("stat", path.display(), e))?.st_size as u64;
    if size != job.dataset.size.0 {
        let what = format!("{} holds {size} bytes where it says {}", path.display(), job.dataset.size.0);
        return Err(Failure::missing(job.name, what));
    }
    Ok(open)
}

/// Brings everything of this file system to the device; how long it took. Errors of write-back that
/// no `write` reported come out here.
pub(crate) fn sync(root: &Path) -> Result<Seconds, Failure> {
    let failed = |e| Failure::kernel("sync", root.display(), e);
    let folder = rustix::fs::open(root, FOLDER, Mode::empty()).map_err(failed)?;
    let start = monotonic_ns();
    rustix::fs::syncfs(&folder).map_err(failed)?;
    Ok(Seconds((monotonic_ns() - start) as f64 / 1e9))
}

/// Asks the kernel to forget the cached pages of a dataset, for places where caches cannot be
/// dropped. It is a request: pages that somebody else maps stay.
///
/// # Errors
/// A file that cannot be opened or synced.
pub fn forget(root: &Path, name: &str, dataset: &Dataset) -> Result<(), Reason> {
    let layout = Layout::of(dataset);
    for file in 0..layout.files {
        let path = layout.path(root, name, file);
        let wrong = |e: std::io::Error| Reason::new(format!("cannot forget {}: {e}", path.display()));
        let open = fs::File::open(&path).map_err(wrong)?;
        // Dirty pages are not forgotten.
        open.sync_data().map_err(wrong)?;
        rustix::fs::fadvise(&open, 0, None, Advice::DontNeed).map_err(|e| wrong(e.into()))?;
    }
    Ok(())
}
