//! Puts what physical volumes of LVM say of themselves to the layers that are some. Devices are read as
//! root only, and never for longer than an audit can wait.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{LayerKind, StackLayer, Unseen};
use serde_json::json;

use crate::walk::aside::{PATIENCE, aside, late};
use crate::walk::label::{self, Physical};
use crate::walk::{reach, told};

/// What a device said, or will say.
type Answer = Receiver<io::Result<Option<Physical>>>;

/// Looks at each layer that a logical volume lies on, and at the first one if `first`: a device that
/// nothing is mounted from may be one.
pub fn look(layers: &mut [StackLayer], first: bool, unseen: &mut Vec<Unseen>) {
    let volumes = layers.iter().filter(|layer| layer.kind == LayerKind::Lvm);
    let carrying: BTreeSet<String> = volumes.flat_map(reach::below).collect();
    let mut asked = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        // Volumes of LVM lie on others of LVM without a label between.
        let sure = carrying.contains(&layer.name) && layer.kind != LayerKind::Lvm;
        if sure || (first && at == 0) {
            let answer = reach::answers(layers, &layer.name).map(|()| ask(layer));
            asked.push((at, sure, answer));
        }
    }
    // For all of them together: each was asked before the first is waited for.
    let deadline = Instant::now() + PATIENCE;
    for (at, sure, answer) in asked {
        let layer = &mut layers[at];
        match answer.and_then(|answer| wait(layer, &answer, deadline)) {
            Ok(Some(found)) => {
                if sure && found.group.is_none() {
                    let reason =
                        Reason::new(format!("{} does not have the description of its group", layer.node))
                            .advise("see `vgs -o name,extent_size`: another device of the group has it");
                    unseen.push(told("pv", Some(&layer.name), reason));
                }
                layer.facts.insert("pv_start".into(), json!(found.start));
                if let Some(group) = found.group {
                    layer.facts.insert("extent".into(), json!(group.extent));
                    layer.facts.insert("pv_group".into(), json!(group.name));
                }
            }
            Ok(None) if sure => {
                let message = format!("{} has no label of LVM, though a volume lies on it", layer.node);
                let reason = Reason::new(message).advise("see `pvs` and `pvck`");
                unseen.push(told("pv", Some(&layer.name), reason));
            }
            // Whoever reads on is to know that it does not answer.
            Err(reason) if sure || reason == late(Path::new(&layer.node)) => {
                unseen.push(told("pv", Some(&layer.name), reason));
            }
            // Nothing says that it is one.
            Ok(None) | Err(_) => {}
        }
    }
}

/// Has the label of a device read aside, which it may hang in from the opening on.
fn ask(layer: &StackLayer) -> Answer {
    let node = PathBuf::from(&layer.node);
    aside(move || {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(node)?;
        label_of(&file)
    })
}

fn wait(layer: &StackLayer, answer: &Answer, deadline: Instant) -> Result<Option<Physical>, Reason> {
    match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(found) => found.map_err(|error| failed(layer, &error)),
        Err(_) => Err(late(Path::new(&layer.node))),
    }
}

fn failed(layer: &StackLayer, error: &io::Error) -> Reason {
    let reason = Reason::new(format!("{} cannot be read: {error}", layer.node));
    match error.kind() {
        io::ErrorKind::PermissionDenied => reason.advise("ask as root"),
        _ => reason.advise("see the kernel log"),
    }
}

/// # Errors
/// If what every device has, its first bytes, cannot be read.
fn label_of(file: &File) -> io::Result<Option<Physical>> {
    let mut failed = None;
    let found = label::physical(&mut |at, length| {
        let mut bytes = vec![0u8; length];
        match file.read_exact_at(&mut bytes, at) {
            Ok(()) => Some(bytes),
            // Smaller than a label is no volume; said where a label points to, it is a broken one.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    match failed {
        Some(error) if found.is_none() => Err(error),
        _ => Ok(found),
    }
}
