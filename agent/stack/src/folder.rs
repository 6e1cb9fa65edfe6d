//! Folders that we make, and their removal: by descriptors, without following a link or crossing a
//! mount, so that nothing outside the folder can be reached by a name that somebody swapped.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsdyno_spec::event::Refusal;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, unlinkat};

use crate::failure::Refused;
use crate::identity::Identity;
use crate::ledger::{Entry, Ledger};

/// A folder of ours, recorded in a ledger.
#[derive(Clone, Debug)]
pub struct WorkFolder {
    /// Where.
    pub path: PathBuf,
    made: Identity,
}

impl WorkFolder {
    /// Makes `<parent>/<name>`, mode 0700; the ledger knows it before and after.
    ///
    /// # Errors
    /// Of the file system.
    pub fn make(ledger: &mut Ledger, parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        ledger.record(&Entry::Folder { path: path.clone(), made: None })?;
        DirBuilder::new().mode(0o700).create(&path)?;
        let made = Identity::at(&path)?;
        ledger.record(&Entry::Folder { path: path.clone(), made: Some(made) })?;
        Ok(Self { path, made })
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// See [`remove`].
    pub fn remove(&self) -> io::Result<()> {
        remove(&self.path, &self.made).map(drop)
    }
}

fn open_folder(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Removes the folder of this identity and everything in it. False if the path names something
/// else or nothing: then nothing is touched.
///
/// # Errors
/// Of the file system; `CrossesDevices` if something is mounted inside.
pub fn remove(path: &Path, identity: &Identity) -> io::Result<bool> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(false);
    };
    let folder = match open_folder(CWD, path) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => {
            return Ok(false);
        }
        other => other?,
    };
    if Identity::of(&folder)? != *identity {
        return Ok(false);
    }
    empty(folder, identity.dev)?;
    let parent = open_folder(CWD, parent)?;
    unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
    Ok(true)
}

/// Deletes what is in an open folder. Iterative, as a workload may have nested deeply; each level's
/// descriptor is held, so no path is walked twice.
fn empty(folder: OwnedFd, dev: u64) -> io::Result<()> {
    let mut open = vec![folder];
    while let Some(current) = open.last() {
        let mut deeper = None;
        for entry in Dir::read_from(current)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entry.file_type() != FileType::Directory {
                match unlinkat(current, name, AtFlags::empty()) {
                    // A file system that does not tell types in its directories.
                    Err(rustix::io::Errno::ISDIR) => {}
                    other => {
                        other?;
                        continue;
                    }
                }
            }
            match unlinkat(current, name, AtFlags::REMOVEDIR) {
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => {
                    deeper = Some(open_folder(current.as_fd(), name)?);
                    break;
                }
                other => other?,
            }
        }
        match deeper {
            Some(child) if Identity::of(&child)?.dev != dev => {
                let message = "something is mounted inside it";
                return Err(io::Error::new(io::ErrorKind::CrossesDevices, message));
            }
            Some(child) => open.push(child),
            None => drop(open.pop()),
        }
    }
    Ok(())
}

/// Makes a folder for our own use, with parents, mode 0700, or checks that an existing one is
/// safe: a folder, no link, ours, and writable by nobody else.
///
/// # Errors
/// A refusal with advice.
pub fn own(path: &Path) -> Result<(), Refused> {
    let fail = |error: io::Error| Refused::io("cannot make", path, &error);
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
    let meta = fs::symlink_metadata(path).map_err(fail)?;
    let me = rustix::process::geteuid().as_raw();
    let problem = if !meta.is_dir() {
        "is not a folder itself but a link or a file"
    } else if meta.uid() != me {
        "belongs to another user"
    } else if meta.mode() & 0o022 != 0 {
        "can be written by other users"
    } else {
        return Ok(());
    };
    Err(Refused::environment(
        format!("{} {problem}", path.display()),
        "choose another folder with --state or --work, or correct its owner and mode (0700)",
    ))
}

/// Checks a directory that somebody offers for a trial. Nothing in it is touched.
///
/// # Errors
/// A refusal with advice.
pub fn offered(path: &Path) -> Result<PathBuf, Refused> {
    let shown = path.display();
    let canonical = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let advice = "make the directory first: fsdyno makes only its own folder inside it";
            Refused::environment(format!("{shown} does not exist"), advice)
        }
        _ => Refused::io("cannot resolve", path, &error),
    })?;
    if !canonical.is_dir() {
        return Err(Refused::new(
            Refusal::BadRequest,
            format!("{shown} is not a directory"),
            "name an existing directory on the file system to be measured",
        ));
    }
    let writable = rustix::fs::access(&canonical, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    writable.map_err(|errno| match errno {
        rustix::io::Errno::ROFS => Refused::environment(
            format!("{shown} is on a read-only file system"),
            "remount it read-write, or name a directory elsewhere",
        ),
        _ => Refused::environment(
            format!("{shown} is not writable"),
            "choose a directory that you may write to, or run as its owner",
        ),
    })?;
    Ok(canonical)
}

/// Brings everything of the file system at `path` to its device.
///
/// # Errors
/// Of `syncfs(2)`, which reports writeback errors too.
pub fn sync(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}
