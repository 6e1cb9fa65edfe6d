//! The array that decides what is put on a device, for advice: the uppermost that is striped.

use std::path::Path;

use fsdyno_filesystems::Geometry;
use fsdyno_spec::align::KnownArray;
use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{LayerKind, StackLayer, Striped};

use crate::walk::{Walked, held, level_of, md, reach, stripes, walk};

/// What decides on what is put on a device.
#[derive(Debug)]
pub struct UnderDevice {
    /// The array; the first one, if parts of the device lie on several of the same geometry.
    pub array: KnownArray,
    /// Its geometry; none if nothing is striped.
    pub geometry: Option<Geometry>,
    /// All layers from the device down to the array and further.
    pub layers: Vec<StackLayer>,
    /// How the device lies on the stripes of each such array.
    pub striped: Vec<Striped>,
    /// Who uses the device or anything on it, in words: `mounted on /srv`, `held by /dev/mapper/vg0-data`.
    pub users: Vec<String>,
}

/// The array of md that decides what is put on `device`: the uppermost striped one at or below it, else the
/// first whose members are copies (its geometry is none).
///
/// # Errors
/// If there is none, or it cannot be read; with what to do instead.
pub fn array_under(device: &Path) -> Result<UnderDevice, Reason> {
    let walked = walk(device)?;
    let mut users = walked.layers.first().map(|top| held::users(&top.name)).unwrap_or_default();
    // One of several devices of a file system is mounted by the name of another one.
    let mounted = walked.mount.as_ref().map(|mount| format!("mounted on {}", mount.point));
    if let Some(mounted) = mounted.filter(|mounted| !users.contains(mounted)) {
        users.insert(0, mounted);
    }
    Ok(UnderDevice { users, ..chosen(walked, device)? })
}

fn chosen(walked: Walked, device: &Path) -> Result<UnderDevice, Reason> {
    let by_hand = "describe the array: --level, --members, --chunk";
    let uppermost = stripes::uppermost(&walked.layers, &walked.striped);
    let first = uppermost.first();
    let of = |striped: &Striped| (striped.chunk, striped.data_disks);
    if let Some((one, other)) =
        first.and_then(|one| Some((one, uppermost.iter().find(|other| of(other) != of(one))?)))
    {
        let node = |on: &str| reach::named(&walked.layers, on).map_or(on, |layer| &layer.node).to_string();
        let message = format!(
            "{} lies on stripes that differ: {} on {}, {} on {}",
            device.display(),
            one.stripe,
            node(&one.on),
            other.stripe,
            node(&other.on)
        );
        return Err(Reason::new(message)
            .advise("no geometry is right for all of it: move it onto one of them, or name one of them"));
    }
    let below = walked.layers.first().map(|top| reach::all_below(&walked.layers, &top.name));
    let is_below = |layer: &&StackLayer| below.as_ref().is_some_and(|below| below.contains(&layer.name));
    let arrays: Vec<&StackLayer> =
        walked.layers.iter().filter(|layer| layer.kind == LayerKind::Md).filter(is_below).collect();
    let chosen = match first {
        Some(striped) => match arrays.iter().find(|layer| layer.name == striped.on) {
            Some(layer) => Some(layer),
            None => return Err(striped_by_hand(&walked.layers, striped)),
        },
        None => arrays.first(),
    };
    let Some(layer) = chosen else {
        let mut message = format!("no array of md lies below {}", device.display());
        if let Some(gap) = walked.unseen.iter().find(|gap| gap.what == "segments" || gap.what == "layer") {
            message = format!("{message} as far as can be seen: {}", gap.reason.message);
        }
        return Err(Reason::new(message).advise(by_hand));
    };
    let found = md::Found::of(&layer.facts);
    let level = found.level.as_deref().unwrap_or("none");
    let (Some(members), Some(known)) = (found.members, level_of(level)) else {
        return Err(Reason::new(format!("{} has the level `{level}`, which has no advice", layer.node))
            .advise("levels 0, 1, 5, 6 and 10 have; one disk of parity at a fixed place (4) counts as 5"));
    };
    let geometry = found.geometry().map_err(|reason| match reason.advice {
        None => reason.advise(by_hand),
        Some(_) => reason,
    })?;
    let array = KnownArray {
        device: Some(layer.node.clone()),
        level: known,
        members,
        chunk: geometry.map(|geometry| geometry.chunk),
        layout: found.layout,
    };
    let striped = uppermost.into_iter().cloned().collect();
    Ok(UnderDevice { array, geometry, layers: walked.layers, striped, users: Vec::new() })
}

/// What is striped, but not by md, counts as level 0.
fn striped_by_hand(layers: &[StackLayer], striped: &Striped) -> Reason {
    let node = reach::named(layers, &striped.on).map_or(striped.on.as_str(), |layer| &layer.node);
    let (members, chunk) = (striped.data_disks, striped.chunk);
    Reason::new(format!("{node} is striped by the device mapper and not by md"))
        .advise(format!("describe it: --level 0 --members {members} --chunk {}", chunk.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::reach::tests::layer;
    use fsdyno_spec::array::Level;
    use fsdyno_spec::units::Bytes;
    use serde_json::json;

    const MIB: u64 = 1 << 20;
    const CHUNK: u64 = 64 << 10;

    fn array(name: &str, level: &str, members: &[&str]) -> StackLayer {
        let chunk = (level != "raid1").then_some(CHUNK);
        let pieces: Vec<_> = members.iter().map(|on| (0, 90 * MIB, *on, MIB, chunk)).collect();
        let mut array = layer(name, &pieces);
        array.kind = LayerKind::Md;
        array.facts = [("level", json!(level)), ("members", json!(members.len())), ("chunk", json!(chunk))]
            .map(|(name, value)| (name.to_string(), value))
            .into();
        array
    }

    fn below(layers: Vec<StackLayer>) -> Result<UnderDevice, Reason> {
        let mut unseen = Vec::new();
        let striped = stripes::striped(&layers, &mut unseen);
        chosen(Walked { layers, striped, unseen, ..Walked::default() }, Path::new("/dev/asked"))
    }

    #[test]
    fn the_array_below_a_partition_is_found_with_how_it_lies_there() {
        let partition = layer("md0p1", &[(0, 8 * MIB, "md0", 32256, None)]);
        let UnderDevice { array: found, geometry, layers, striped, .. } =
            below(vec![partition, array("md0", "raid5", &["a", "b", "c", "d"])]).unwrap();
        assert_eq!(
            (found.device.as_deref(), found.level, found.members),
            (Some("/dev/md0"), Level::Raid5, 4)
        );
        assert_eq!((found.chunk, geometry.unwrap().data_disks), (Some(Bytes(CHUNK)), 3));
        assert_eq!((layers.len(), striped[0].pieces[0].off), (2, Bytes(32256)));
    }

    #[test]
    fn of_arrays_on_arrays_the_uppermost_striped_one_decides() {
        let lower = || array("md1", "raid5", &["a", "b", "c"]);
        let name = |layers| below(layers).unwrap().array.device.unwrap();
        assert_eq!(name(vec![array("md9", "raid0", &["md1", "x"]), lower()]), "/dev/md9");
        assert_eq!(name(vec![array("md9", "raid1", &["md1", "x"]), lower()]), "/dev/md1");
    }

    #[test]
    fn copies_alone_are_an_array_without_geometry() {
        let found = below(vec![array("md0", "raid1", &["a", "b"])]).unwrap();
        assert_eq!((found.array.level, found.array.chunk, found.geometry), (Level::Raid1, None, None));
        assert_eq!(found.striped, []);
    }

    #[test]
    fn a_volume_over_arrays_has_the_geometry_that_they_share_and_none_if_they_differ() {
        let pieces = [(0, 8 * MIB, "md0", 3 * MIB, None), (8 * MIB, 8 * MIB, "md1", 3 * MIB, None)];
        let over = |second: &[&str]| {
            below(vec![
                layer("dm-0", &pieces),
                array("md0", "raid5", &["a", "b", "c"]),
                array("md1", "raid5", second),
            ])
        };
        let alike = over(&["d", "e", "f"]).unwrap();
        assert_eq!(alike.array.device.as_deref(), Some("/dev/md0"));
        let on: Vec<_> = alike.striped.iter().map(|striped| striped.on.as_str()).collect();
        assert_eq!(on, ["md0", "md1"]);
        let reason = over(&["d", "e", "f", "g"]).unwrap_err();
        assert!(reason.message.contains("128 KiB on /dev/md0, 192 KiB on /dev/md1"), "{reason:?}");
    }

    #[test]
    fn what_has_no_advice_is_refused_with_what_to_say_instead() {
        let volume = layer("dm-0", &[(0, 8, "a", 0, Some(CHUNK)), (0, 8, "b", 0, Some(CHUNK))]);
        let advice = |layers| below(layers).unwrap_err().advice.unwrap();
        assert!(advice(vec![volume]).contains("--level 0 --members 2 --chunk 65536"));
        assert!(advice(vec![array("md0", "raid4", &["a", "b", "c"])]).contains("counts as 5"));
        // An array of which the device has nothing: a file system's second device.
        assert!(advice(vec![layer("sda", &[]), array("md0", "raid5", &["a", "b", "c"])]).contains("--level"));
    }
}
