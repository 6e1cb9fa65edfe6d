//! A live stack as it stands, for `survey --stack`: reads, and changes nothing. What lies below is walked by
//! the crate that knows devices; here the file system on it is added, in whatever order of rights: what only
//! root may read is listed as unseen for anybody else, and the rest is still said.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fsdyno_filesystems::{FileSystem, Standing, Superblock};
use fsdyno_probe::space::{free_pieces, space};
use fsdyno_probe::timers::Jobs;
use fsdyno_probe::{host, timers};
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{FoundFileSystem, Mounted, RECORD, Space, StackLayer, StackRecord, Unseen, Upkeep};
use fsdyno_spec::survey::Host;
use fsdyno_stack::walk::{Walked, answers, late, walk, within};
use rustix::fs::OFlags;

use super::BECOME_ROOT;

/// What the listing of free pieces may take.
const LISTING: Duration = Duration::from_millis(150);

/// What lies below a path or a device.
///
/// # Errors
/// What the target is that nothing can be said of.
pub fn stack(target: &Path) -> Result<StackRecord, Reason> {
    Ok(compose(walk(target)?, host::host()))
}

/// The record of what was walked.
fn compose(walked: Walked, host: Host) -> StackRecord {
    let mut unseen = walked.unseen.clone();
    let filesystem = filesystem(&walked, host.root, &mut unseen);
    let Jobs { timers, gap } = timers::timers(Path::new("/"));
    unseen.extend(gap.map(|reason| Unseen { what: "timers".into(), layer: None, reason }));
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    StackRecord {
        fsdyno_record: RECORD,
        taken,
        target: walked.target,
        host,
        mount: walked.mount,
        filesystem,
        layers: walked.layers,
        striped: walked.striped,
        timers,
        unseen,
    }
}

/// What a medium says of its file system.
#[derive(Default)]
struct Read {
    row: Option<&'static FileSystem>,
    superblock: Option<Superblock>,
    upkeep: Upkeep,
}

/// The file system, if it is mounted or its superblock is known.
fn filesystem(walked: &Walked, root: bool, unseen: &mut Vec<Unseen>) -> Option<FoundFileSystem> {
    let read = medium(walked, root, unseen);
    let kind = read.row.map(|row| row.name.to_string()).or_else(|| walked.fstype.clone())?;
    let mut found = FoundFileSystem {
        kind,
        known: read.row.is_some(),
        on: walked.on.clone(),
        superblock: read.superblock.map(|superblock| superblock.facts),
        upkeep: read.upkeep,
        space: walked.mount.as_ref().and_then(|mount| filled(mount, walked, unseen)),
        ..FoundFileSystem::default()
    };
    let Some(row) = read.row else { return Some(found) };
    let mount = walked.mount.as_ref();
    let shown: &[String] = mount.map_or(&[], |mount| &mount.options);
    unseen.extend(row.elsewhere(found.superblock.as_ref(), shown).iter().map(|what| apart(what, walked)));
    found.barriers = mount.and_then(|mount| row.ordered(&mount.options));
    if let Some(first) = walked.layers.first() {
        let geometry = walked.stripe();
        let driver = mount.and_then(|_| row.driver(&first.name));
        let standing = Standing {
            device: &first.node,
            point: mount.map(|mount| mount.point.as_str()),
            shown,
            driver: driver.as_deref(),
            superblock: found.superblock.as_ref(),
            geometry: geometry.as_ref(),
        };
        found.geometry = row.found_geometry(&standing);
        found.commands = row.commands(&standing);
    }
    Some(found)
}

/// That something of a file system lies on a device of its own, of which nothing is below the others.
fn apart(what: &str, walked: &Walked) -> Unseen {
    let on = walked.layers.first().map_or("its device", |first| first.node.as_str());
    let reason = Reason::new(format!("{what} lies on a device of its own and not on {on}"))
        .advise("audit that device by itself: nothing here is said of it");
    Unseen { what: "layer".into(), layer: None, reason }
}

/// Reads the first device, as root only; without that a mount still tells its type.
fn medium(walked: &Walked, root: bool, unseen: &mut Vec<Unseen>) -> Read {
    let by_mount = || Read { row: by_name(walked.fstype.as_deref()), ..Read::default() };
    let Some(first) = walked.layers.first() else { return by_mount() };
    if let Some(reason) = of_others(walked, first) {
        unseen.push(Unseen { what: "superblock".into(), layer: Some(first.name.clone()), reason });
        return Read::default();
    }
    let read = match root {
        false => Err(Reason::new(format!("only root may read {}", first.node)).advise(BECOME_ROOT)),
        true => responds(walked, unseen).and_then(|()| {
            let (node, fstype) = (PathBuf::from(&first.node), walked.fstype.clone());
            within(Path::new(&first.node), move || read(&node, fstype.as_deref()))
        }),
    };
    read.unwrap_or_else(|reason| {
        unseen.push(Unseen { what: "superblock".into(), layer: Some(first.name.clone()), reason });
        by_mount()
    })
}

/// Why what is on a device is not its own file system, if it is not: others hold it, or it was divided.
fn of_others(walked: &Walked, first: &StackLayer) -> Option<Reason> {
    let node = &first.node;
    if !walked.held.is_empty() {
        return Some(
            Reason::new(format!("{node} is held by {}", walked.held.join(", ")))
                .advise("audit that: what is on this device belongs to it"),
        );
    }
    if let Some(partition) = walked.partitions.first() {
        return Some(
            Reason::new(format!("{node} is divided: {}", walked.partitions.join(", ")))
                .advise(format!("audit its partitions one by one: audit {partition}")),
        );
    }
    (walked.mount.is_none() && first.facts.contains_key("pv_start")).then(|| {
        Reason::new(format!("{node} is a physical volume of LVM, and none of its volumes is active"))
            .advise("activate a volume (lvchange -ay), and audit that")
    })
}

/// Whether the first device would answer a read, as far as is known: what was waited for in vain once is not
/// waited for again.
fn responds(walked: &Walked, unseen: &[Unseen]) -> Result<(), Reason> {
    let layers = &walked.layers;
    let Some(first) = layers.first() else { return Ok(()) };
    let gave_up = |layer: &StackLayer| {
        let reason = late(Path::new(&layer.node));
        unseen.iter().any(|gap| gap.reason == reason).then_some(reason)
    };
    layers.iter().find_map(gave_up).map_or_else(|| answers(layers, &first.name), Err)
}

fn by_name(fstype: Option<&str>) -> Option<&'static FileSystem> {
    fsdyno_filesystems::of_mount(fstype?, None).map(|(row, _)| row)
}

/// Reads superblock and upkeep. That nothing is found on a device that is not mounted is a reason as well: what
/// was not there was not judged.
fn read(node: &Path, fstype: Option<&str>) -> Result<Read, Reason> {
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(node).map_err(
            |error| {
                Reason::new(format!("{} cannot be opened: {error}", node.display()))
                    .advise("look whether a container forbids the device, or the disk is gone")
            },
        )?;
    let (row, superblock) = match fstype {
        None => fsdyno_filesystems::probe(&mut file)?.ok_or_else(|| {
            Reason::new(format!("no file system that is known here is on {}", node.display())).advise(
                "if files are on it: audit a folder of theirs, or the volume or array that is made of it",
            )
        })?,
        Some(fstype) => match fsdyno_filesystems::of_mount(fstype, Some(&mut file)) {
            // Of a type that is not in the table nothing could be read.
            None => return Ok(Read::default()),
            Some((row, Some(superblock))) => (row, superblock),
            // The row itself knows what is wrong with it.
            Some((row, None)) => (row, row.superblock(&mut file)?),
        },
    };
    Ok(Read { row: Some(row), superblock: Some(superblock), upkeep: row.upkeep(&mut file)? })
}

/// How full it is; its pieces only where there is a device for them to be on.
fn filled(mount: &Mounted, walked: &Walked, unseen: &mut Vec<Unseen>) -> Option<Space> {
    let point = PathBuf::from(&mount.point);
    let told = |unseen: &mut Vec<Unseen>, what: &str, reason: Reason| {
        unseen.push(Unseen { what: what.into(), layer: None, reason });
    };
    let counted = within(&point, {
        let point = point.clone();
        move || space(&point).map_err(|error| uncounted(&point, &error))
    });
    let mut space = match counted {
        Ok(space) => space,
        Err(reason) => {
            told(unseen, "space", reason);
            return None;
        }
    };
    if !walked.layers.is_empty() {
        let fstype = mount.fstype.clone();
        let listed = responds(walked, unseen).and_then(|()| {
            let list = point.clone();
            within(&point, move || {
                free_pieces(&list, LISTING).map_err(|error| unlisted(&list, &fstype, &error))
            })
        });
        match listed {
            Ok(pieces) => space.pieces = Some(pieces),
            Err(reason) => told(unseen, "pieces", reason),
        }
    }
    Some(space)
}

fn uncounted(point: &Path, error: &io::Error) -> Reason {
    Reason::new(format!("the space of {} cannot be read: {error}", point.display()))
        .advise("look whether the file system or its device hangs")
}

fn unlisted(point: &Path, fstype: &str, error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::Unsupported => {
            Reason::new(format!("{fstype} has no list of its free space to be read"))
        }
        io::ErrorKind::PermissionDenied => {
            Reason::new(format!("only root may list the free space of {}", point.display()))
                .advise(BECOME_ROOT)
        }
        _ => Reason::new(format!("the free space of {} cannot be listed: {error}", point.display()))
            .advise("look into the kernel log for a file system or device that hangs or fails"),
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
