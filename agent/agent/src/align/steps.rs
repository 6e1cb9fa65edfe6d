//! What to do below the file system: partition, LVM, and the device's read-ahead.

use fsdyno_filesystems::{Geometry, LVM_EXTENT, MOST_READ_AHEAD, quote};
use fsdyno_spec::align::Step;
use fsdyno_spec::record::{LayerKind, StackLayer};
use fsdyno_spec::units::Bytes;

/// Where partitions begin whose disk has no stripes.
const PLAIN_START: Bytes = Bytes::mib(1);

/// What an extent of LVM is less than: it counts their sectors in 32 bits.
const NO_EXTENT: Bytes = Bytes::mib(2 << 20);

/// What everything is put on.
pub struct Place {
    /// Node.
    pub node: String,
    /// Size, if it is there.
    pub size: Option<Bytes>,
    /// Whether it is only described.
    described: bool,
    /// Whether it can be cut into partitions.
    partitions: bool,
    /// Whether a physical volume of LVM would be made of it.
    volumes: bool,
}

impl Place {
    /// An array that nobody has named, by a node that no device has: a command that is pasted as it is must
    /// not find somebody's array.
    pub fn by_hand() -> Self {
        Self { node: "/dev/ARRAY".to_string(), size: None, described: true, partitions: true, volumes: true }
    }

    /// A device of the live stack.
    pub fn of(layer: &StackLayer) -> Self {
        Self {
            node: layer.node.clone(),
            size: Some(layer.size),
            described: false,
            partitions: layer.kind == LayerKind::Md,
            volumes: matches!(layer.kind, LayerKind::Md | LayerKind::Partition | LayerKind::Crypt),
        }
    }
}

impl Place {
    /// Why LVM is not advised here: a stripe that is no power of two in a chunk of odd size can ask for extents
    /// that LVM does not have.
    pub fn without_volumes(&mut self, geometry: Option<&Geometry>) -> Option<String> {
        let extent = geometry.map(Geometry::extent).filter(|extent| self.volumes && *extent >= NO_EXTENT)?;
        self.volumes = false;
        Some(format!(
            "no advice for LVM: extents of {} would be whole stripes, and LVM's are smaller than {}",
            exactly(extent),
            exactly(NO_EXTENT)
        ))
    }
}

/// A partition, and a volume, for whoever wants one below the file system.
pub fn below(place: &Place, geometry: Option<&Geometry>) -> Vec<Step> {
    let mut steps = Vec::new();
    if place.partitions {
        steps.push(partition(place, geometry));
    }
    if place.volumes {
        steps.extend(volume(place, geometry));
    }
    steps
}

fn partition(place: &Place, geometry: Option<&Geometry>) -> Step {
    let start = geometry.map_or(PLAIN_START, Geometry::data_alignment);
    let why = match geometry {
        Some(geometry) => {
            format!("it begins with a whole stripe ({}) and a whole MiB", exactly(geometry.stripe()))
        }
        None => "nothing is striped: a whole MiB is all that is needed".to_string(),
    };
    let node = quote(&place.node);
    step("partition", format!("echo start={}MiB | sfdisk -X gpt {node}", start.0 >> 20), why)
}

fn volume(place: &Place, geometry: Option<&Geometry>) -> [Step; 3] {
    let node = quote(&place.node);
    let Some(geometry) = geometry else {
        return [
            step(
                "pvcreate",
                format!("pvcreate {node}"),
                "its data begins at 1 MiB, which is all that is needed",
            ),
            step(
                "vgcreate",
                format!("vgcreate vg0 {node}"),
                "nothing is striped: LVM's extents of 4 MiB will do",
            ),
            step("lvcreate", "lvcreate -n data -l 100%FREE vg0", "every volume begins with an extent"),
        ];
    };
    let (stripe, extent) = (exactly(geometry.stripe()), geometry.extent());
    let why = if extent == LVM_EXTENT {
        format!("LVM's own extent, stated so that it stays: it is whole stripes of {stripe}")
    } else {
        format!(
            "whole stripes of {stripe}; LVM's own 4 MiB are none, so the second volume would begin within one"
        )
    };
    [
        step(
            "pvcreate",
            format!("pvcreate --dataalignment {}k {node}", geometry.stripe().0 >> 10),
            "the first extent begins with a stripe",
        ),
        step("vgcreate", format!("vgcreate -s {}m vg0 {node}", extent.0 >> 20), why),
        step(
            "lvcreate",
            "lvcreate -n data -l 100%FREE vg0",
            "sizes are whole extents, so every volume begins with a stripe, also the ones behind it",
        ),
    ]
}

/// Read-ahead of the device, which most file systems on it use.
pub fn read_ahead(place: &Place, geometry: Option<&Geometry>) -> Option<Step> {
    let geometry = geometry?;
    let sectors = geometry.read_ahead().0 / 512;
    let disks = geometry.data_disks;
    let why = match geometry.read_ahead() {
        MOST_READ_AHEAD => format!(
            "{} is the most that is advised, as each reader fills memory with it; two stripes would be {}",
            exactly(MOST_READ_AHEAD),
            exactly(Bytes(geometry.stripe().0.saturating_mul(2)))
        ),
        _ => format!(
            "two stripes keep {disks} data disks busy for one reader; md sets that by itself, hardware that announces \
             nothing stays at 128 KiB"
        ),
    };
    Some(step("read_ahead", format!("blockdev --setra {sectors} {}", quote(&place.node)), why))
}

/// What stands for what.
pub fn names(place: &Place) -> Vec<String> {
    let mut notes = Vec::new();
    let node = &place.node;
    if place.described {
        notes.push(format!("{node}, vg0, data and /mnt stand for your own names"));
    } else if place.volumes {
        notes.push("vg0, data and /mnt stand for your own names".to_string());
    } else {
        notes.push("/mnt stands for your own name".to_string());
    }
    let instead = match (place.partitions, place.volumes) {
        (true, _) => Some(format!("{} or /dev/vg0/data", first_partition(place))),
        (false, true) => Some("/dev/vg0/data".to_string()),
        (false, false) => None,
    };
    if let Some(instead) = instead {
        let what = if place.partitions { "a partition and LVM are" } else { "LVM is" };
        notes.push(format!("{what} not needed: with them, later commands take {instead} instead of {node}"));
    }
    notes
}

/// The kernel's name for it (`disk_name` in `block/partitions/core.c`). Names of arrays end with a digit.
fn first_partition(place: &Place) -> String {
    let digit = place.node.ends_with(|last: char| last.is_ascii_digit());
    let between = if digit || place.described { "p" } else { "" };
    format!("{}{between}1", place.node)
}

/// A size in the largest unit in which it is whole: `1280 KiB`, not `1.2 MiB`.
pub fn exactly(size: Bytes) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| size.0.is_multiple_of(*unit) && size.0 > 0);
    whole.map_or(format!("{} bytes", size.0), |(unit, name)| format!("{} {name}", size.0 / unit))
}

fn step(kind: &str, command: impl Into<String>, why: impl Into<String>) -> Step {
    Step { kind: kind.to_string(), filesystem: None, command: command.into(), why: why.into() }
}
