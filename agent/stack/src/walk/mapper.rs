//! A mapped device as a layer: its name and kind from sysfs, where its bytes lie from its table.

use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::{Facts, LayerKind, Piece, Unseen};
use fsdyno_spec::units::Bytes;
use serde_json::json;

use crate::sysfs;
use crate::walk::device::{Parts, is_number, node, slaves};
use crate::walk::table::{Line, Target};
use crate::walk::{control, told};

/// The mapped device of a kernel name.
pub fn parts(name: &str, unseen: &mut Vec<Unseen>) -> Parts {
    let of = |attribute: &str| sysfs::text(&sysfs::class(name).join(attribute)).unwrap_or_default();
    let (mapped, uuid) = (of("dm/name"), of("dm/uuid"));
    let mut facts = Facts::from([
        ("name".to_string(), json!(mapped)),
        ("suspended".to_string(), json!(of("dm/suspended") == "1")),
    ]);
    if !uuid.is_empty() {
        facts.insert("uuid".into(), json!(uuid));
    }
    let named = Path::new("/dev/mapper").join(&mapped);
    let node = match !mapped.is_empty() && named.exists() {
        true => named.to_string_lossy().into_owned(),
        false => node(name),
    };
    let table = control::table(&of("dev"));
    let lines = table.as_deref().unwrap_or_default();
    let mut targets: Vec<&str> = Vec::new();
    for line in lines {
        if !targets.contains(&line.kind.as_str()) {
            targets.push(&line.kind);
        }
    }
    let kind = kind(&uuid, &targets);
    if table.is_ok() {
        facts.insert("targets".into(), json!(targets));
    }
    if kind == LayerKind::Lvm {
        facts.extend(volume(&mapped));
    }
    if let Some(number) = partition(&uuid) {
        facts.insert("number".into(), json!(number));
    }
    let cipher = lines.iter().find_map(|line| match &line.target {
        Target::Mapped { cipher, .. } => cipher.clone(),
        _ => None,
    });
    if let Some(cipher) = cipher {
        facts.insert("cipher".into(), json!(cipher));
    }
    let below = match &table {
        Err(error) => Err(unread(name, error)),
        Ok(lines) => pieces(lines).or_else(|unknown| match unknown.as_str() {
            "multipath" => Ok(paths(name)),
            _ => Err(Reason::new(format!("how the target `{unknown}` lays out {name} is not known here"))
                .advise(format!("see `dmsetup table {mapped}` and the tools of that target"))),
        }),
    };
    let (below, somewhere_on) = match below {
        Ok(below) => (below, Vec::new()),
        Err(reason) => {
            unseen.push(told("segments", Some(name), reason));
            (Vec::new(), slaves(name))
        }
    };
    Parts { kind, node, facts, below, somewhere_on }
}

fn unread(name: &str, error: &std::io::Error) -> Reason {
    let reason = Reason::new(format!("the table of {name} cannot be read: {error}"));
    match rustix::process::geteuid().is_root() {
        true => reason.advise("see that /dev/mapper/control is there: /dev must be the host's"),
        false => reason.advise("ask as root: the kernel shows tables of mapped devices to nobody else"),
    }
}

/// By who made it, which the prefix of its UUID tells; else by what it does.
fn kind(uuid: &str, targets: &[&str]) -> LayerKind {
    match uuid.split_once('-').map(|(prefix, _)| prefix) {
        Some("LVM") => LayerKind::Lvm,
        Some("CRYPT") => LayerKind::Crypt,
        Some("mpath") => LayerKind::Multipath,
        _ if partition(uuid).is_some() => LayerKind::Partition,
        _ if targets == ["crypt"] => LayerKind::Crypt,
        _ if targets == ["multipath"] => LayerKind::Multipath,
        _ => LayerKind::Mapper,
    }
}

/// Number of a partition that kpartx made: `part1-…`.
fn partition(uuid: &str) -> Option<u64> {
    let number = uuid.split_once('-')?.0.strip_prefix("part")?;
    is_number(number).then(|| number.parse().ok())?
}

/// `group-volume[-layer]`, where hyphens within names are doubled.
fn volume(name: &str) -> Facts {
    // No name of LVM has a NUL in it.
    let guarded = name.replace("--", "\0");
    let names = guarded.split('-').map(|part| part.replace('\0', "-"));
    ["group", "volume", "part"].into_iter().map(String::from).zip(names.map(|name| json!(name))).collect()
}

/// Where all bytes lie; else the target that does not tell.
fn pieces(lines: &[Line]) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    for line in lines {
        match &line.target {
            Target::Nothing => {}
            Target::Other => return Err(line.kind.clone()),
            Target::Mapped { on, chunk, .. } => {
                for place in on {
                    pieces.push(Piece {
                        start: Bytes(line.start),
                        size: Bytes(line.size),
                        on: sysfs::name_of_number(&place.device).map_err(|_| line.kind.clone())?,
                        offset: Bytes(place.offset),
                        chunk: chunk.map(Bytes),
                    });
                }
            }
        }
    }
    Ok(pieces)
}

/// Each path leads to the same disk, byte for byte (drivers/md/dm-mpath.c).
fn paths(name: &str) -> Vec<Piece> {
    let size = Bytes(sysfs::number(&sysfs::class(name).join("size")).unwrap_or(0).saturating_mul(512));
    let path = |on: String| Piece { start: Bytes(0), size, on, offset: Bytes(0), chunk: None };
    slaves(name).into_iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_made_a_mapped_device_is_known_by_its_uuid() {
        assert_eq!(kind("LVM-abcdef", &["linear"]), LayerKind::Lvm);
        assert_eq!(kind("CRYPT-LUKS2-0123-root", &["crypt"]), LayerKind::Crypt);
        assert_eq!(kind("mpath-3600", &[]), LayerKind::Multipath);
        assert_eq!(kind("part3-mpath-3600", &["linear"]), LayerKind::Partition);
        assert_eq!(kind("", &["crypt"]), LayerKind::Crypt);
        assert_eq!(kind("", &["linear", "crypt"]), LayerKind::Mapper);
        assert_eq!(kind("party-x", &["linear"]), LayerKind::Mapper);
        assert_eq!(partition("part12-x"), Some(12));
    }

    #[test]
    fn group_and_volume_come_out_of_the_name_with_their_own_hyphens() {
        let of = |name: &str| {
            let facts = volume(name);
            ["group", "volume", "part"].map(|key| facts.get(key).map(|v| v.as_str().unwrap().to_string()))
        };
        assert_eq!(of("vg-data"), [Some("vg".into()), Some("data".into()), None]);
        assert_eq!(of("my--vg-a--b--c"), [Some("my-vg".into()), Some("a-b-c".into()), None]);
        assert_eq!(of("vg-snap-cow"), [Some("vg".into()), Some("snap".into()), Some("cow".into())]);
    }
}
