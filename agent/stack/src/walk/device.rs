//! One block device as a layer: what it is by what sysfs has for it, and where its bytes lie.

use std::fs;
use std::path::Path;

use fsdyno_filesystems::quote;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Facts, LayerKind, Piece, StackLayer, Unseen};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use crate::sysfs;
use crate::walk::{mapper, md, queue, told};

/// Names of disks that sysfs shows no hardware for: memory and servers of blocks.
const DISKS: [&str; 3] = ["zram", "nbd", "ram"];

/// What one kind of device has for its layer.
#[derive(Debug)]
pub struct Parts {
    /// What it is.
    pub kind: LayerKind,
    /// Node to use in commands.
    pub node: String,
    /// What only its kind has.
    pub facts: Facts,
    /// Where its bytes lie.
    pub below: Vec<Piece>,
    /// What lies below where that is not known.
    pub somewhere_on: Vec<String>,
}

/// The device of a kernel name.
pub fn layer(name: &str, unseen: &mut Vec<Unseen>) -> StackLayer {
    let class = sysfs::class(name);
    let size = Bytes(sysfs::number(&class.join("size")).unwrap_or(0).saturating_mul(512));
    let parts = if class.join("partition").exists() {
        partition(name, size)
    } else if class.join("dm").exists() {
        mapper::parts(name, unseen)
    } else if class.join("md").exists() {
        md::parts(name, size, unseen)
    } else if name.strip_prefix("loop").is_some_and(is_number) {
        looped(name, unseen)
    } else {
        other(name, unseen)
    };
    let queue = queue::facts(name);
    if queue.is_empty() {
        let reason = Reason::new(format!("sysfs shows no queue of {name}"))
            .advise("mount /sys; a device that went away meanwhile has none");
        unseen.push(told("queue", Some(name), reason));
    }
    let Parts { kind, node, facts, below, somewhere_on } = parts;
    StackLayer { name: name.to_string(), node, kind, size, queue, facts, below, somewhere_on }
}

/// `/dev/<name>`: what the kernel calls with a `!` lies in a folder.
pub fn node(name: &str) -> String {
    format!("/dev/{}", name.replace('!', "/"))
}

/// Whether a text is a decimal number and nothing else.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Names in `slaves` of a device, in order.
pub fn slaves(name: &str) -> Vec<String> {
    let mut names = sysfs::names_in(&sysfs::class(name).join("slaves"));
    names.sort();
    names
}

fn partition(name: &str, size: Bytes) -> Parts {
    let class = sysfs::class(name);
    let mut facts = Facts::new();
    if let Ok(number) = sysfs::number(&class.join("partition")) {
        facts.insert("number".into(), json!(number));
    }
    let disk = sysfs::disk_of(name);
    let start = sysfs::number(&class.join("start")).ok().and_then(|sectors| sectors.checked_mul(512));
    // In sectors of 512 bytes whatever the disk's are.
    let (below, somewhere_on) = match start {
        Some(offset) => {
            (vec![Piece { start: Bytes(0), size, on: disk, offset: Bytes(offset), chunk: None }], Vec::new())
        }
        None => (Vec::new(), vec![disk]),
    };
    Parts { kind: LayerKind::Partition, node: node(name), facts, below, somewhere_on }
}

fn looped(name: &str, unseen: &mut Vec<Unseen>) -> Parts {
    let of = |attribute: &str| sysfs::text(&sysfs::class(name).join("loop").join(attribute)).ok();
    let mut facts = Facts::new();
    let file = of("backing_file");
    unseen.push(told("layer", Some(name), below_file(name, file.as_deref())));
    if let Some(file) = file {
        facts.insert("backing_file".into(), json!(file));
    }
    if let Some(direct) = of("dio") {
        facts.insert("direct_io".into(), json!(direct == "1"));
    }
    if let Some(offset) = of("offset").and_then(|text| text.parse::<u64>().ok()) {
        facts.insert("offset".into(), json!(offset));
    }
    Parts { kind: LayerKind::Loop, node: node(name), facts, below: Vec::new(), somewhere_on: Vec::new() }
}

/// That what a file lies on is a stack of its own. The file may be gone, or be named as another mount namespace
/// sees it.
fn below_file(name: &str, file: Option<&str>) -> Reason {
    let reason = Reason::new(format!("what the file behind {name} lies on was not looked at"));
    match file.and_then(|file| Path::new(file).parent()).filter(|folder| folder.is_dir()) {
        Some(folder) => reason.advise(format!("audit {}", quote(&folder.to_string_lossy()))),
        None => reason.advise("audit the folder that the file is in, where it is seen"),
    }
}

/// A disk, if there is hardware behind it or its driver is known to be all there is; else nothing that
/// is known here.
fn other(name: &str, unseen: &mut Vec<Unseen>) -> Parts {
    let hardware = sysfs::class(name).join("device");
    let somewhere_on = slaves(name);
    let known = DISKS.iter().any(|disk| name.strip_prefix(disk).is_some_and(is_number));
    if somewhere_on.is_empty() && (hardware.exists() || known) {
        let facts = disk(&hardware);
        return Parts { kind: LayerKind::Disk, node: node(name), facts, below: Vec::new(), somewhere_on };
    }
    let what = match somewhere_on.is_empty() {
        true => "and sysfs shows nothing below it".to_string(),
        false => format!("and lies on {} in a way that is not known", somewhere_on.join(", ")),
    };
    let reason = Reason::new(format!("{name} is of a driver that is not known here, {what}"))
        .advise("judge that layer by its own tools");
    unseen.push(told("layer", Some(name), reason));
    Parts { kind: LayerKind::Unknown, node: node(name), facts: Facts::new(), below: Vec::new(), somewhere_on }
}

fn disk(hardware: &Path) -> Facts {
    let of = |attribute: &str| sysfs::text(&hardware.join(attribute)).ok().filter(|text| !text.is_empty());
    let driver = fs::canonicalize(hardware.join("subsystem")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    [("model", of("model")), ("state", of("state")), ("driver", driver)]
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_string(), json!(text?))))
        .collect()
}
