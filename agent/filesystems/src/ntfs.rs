//! NTFS: by the kernel's ntfs3 where it has it, else by the FUSE program ntfs-3g.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::json;

use crate::argv::Argv;
use crate::extra::MkfsFlag;
use crate::filesystem::{DiscardOff, Disk, FileSystem, Identity, Program};
use crate::here::Here;
use crate::medium::{Block, Medium, Superblock, block_size, names};
use crate::options::{EXTRA_MOUNT, Kind, NOATIME, OptionRow, Options, extra_mkfs};
use crate::plan::{CommandLine, MountPlan, POINT};
use crate::rule::Rule;
use crate::verdict::{ToolVerdict, made};

pub(crate) static NTFS: FileSystem = FileSystem {
    name: "ntfs",
    summary: "the file system of Windows, by the kernel (ntfs3) or by FUSE (ntfs-3g)",
    fstype: FUSE,
    disk: Some(Disk {
        // mkntfs: 1 MiB without the last sector, which is the boot sector's copy; in whole clusters.
        minimum_size: Bytes::kib(1028),
        mkfs: Program { name: "mkntfs", package: "ntfs-3g", version: &["--version"], exit: made },
        lists: &[],
        mkfs_arguments: arguments,
        check: Ok((
            Program { name: "ntfsfix", package: "ntfs-3g", version: &["--version"], exit: checked },
            &["-n"],
        )),
        check_by_hand: &["-n"],
        identity: Identity::Label(LABEL),
        geometry: None,
        grow: Err("an NTFS grows only while it is not mounted (ntfsresize), which fsdyno does not do"),
        superblock,
        is_it: |_| true,
        upkeep,
        elsewhere: &[],
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: None,
    flushes: true,
    counts_inodes: false,
    notes: &[
        "ntfsfix -n looks at the boot sectors, the first records and the journal only: it is no full check, and \
         none exists outside Windows.",
        "Which driver serves it (ntfs3 in the kernel, or ntfs-3g by FUSE) is recorded; they have little in common.",
        "mkntfs takes no UUID: a medium of ours is known by its label.",
    ],
    options: &[
        OptionRow {
            name: "cluster_size",
            kind: Kind::SizeOf(&[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]),
            rule: Rule::MkfsOwn,
            help: "Unit of allocation (mkntfs -c). Left out: 4096, on a device of any size.",
        },
        OptionRow {
            name: "sector_size",
            kind: Kind::SizeOf(&[512, 1024, 2048, 4096]),
            rule: Rule::MkfsWord("-s"),
            help: "Sector that the format counts in (mkntfs -s). Left out: the device's.",
        },
        OptionRow {
            name: "quick",
            kind: Kind::Flag(true),
            rule: Rule::MkfsOwn,
            help: "mkntfs writes metadata only (-Q). false: it writes the whole device, and the time of mkfs is that.",
        },
        extra_mkfs(FLAGS),
        NOATIME,
        OptionRow {
            name: "driver",
            kind: Kind::Word(&["auto", NTFS3, NTFS_3G]),
            rule: Rule::MountOwn,
            help: "What serves it: ntfs3 (the kernel), ntfs-3g (FUSE), or auto: ntfs3 if the kernel has it, else \
                   ntfs-3g. Left out: auto.",
        },
        OptionRow {
            name: "big_writes",
            kind: Kind::Flag(false),
            rule: Rule::MountOwn,
            help: "FUSE hands on writes of up to 128 KiB instead of 4 KiB (ntfs-3g -o big_writes); with driver = \
                   \"ntfs-3g\".",
        },
        EXTRA_MOUNT,
    ],
    refuse,
    unsupported,
    adjust_mount,
    modules: &["ntfs3", "fuse"],
    driver,
    driver_hint,
    advise: None,
};

/// What mountinfo and /proc/filesystems call a FUSE file system on a block device.
const FUSE: &str = "fuseblk";
const NTFS3: &str = "ntfs3";
const NTFS_3G: &str = "ntfs-3g";
const CLUSTER: u64 = 4096;

/// Characters of a label that Windows takes.
const LABEL: usize = 32;

/// Left out: force (-F), making nothing (-n), the label (-L), a size in sectors.
const FLAGS: &[MkfsFlag] = &[
    MkfsFlag::alone("-C"),
    MkfsFlag::with_value("-H"),
    MkfsFlag::alone("-I"),
    MkfsFlag::with_value("-p"),
    MkfsFlag::with_value("-S"),
    MkfsFlag::alone("-T"),
    MkfsFlag::alone("-v"),
    MkfsFlag::with_value("-z"),
];

fn arguments(argv: &mut Argv, options: &Options, label: &str, force: bool) {
    argv.word("-q");
    if force {
        argv.word("-F");
    }
    if options.flag("quick") != Some(false) {
        argv.word("-Q");
    }
    argv.word("-c");
    argv.word(options.number("cluster_size").unwrap_or(CLUSTER).to_string());
    argv.word("-L");
    argv.word(label);
}

fn refuse(options: &Options) -> Result<(), Reason> {
    let (cluster, sector) =
        (options.number("cluster_size").unwrap_or(CLUSTER), options.number("sector_size"));
    if let Some(sector) = sector.filter(|sector| *sector > cluster) {
        return Err(Reason::new(format!(
            "ntfs: sectors of {sector} bytes do not fit in clusters of {cluster}"
        ))
        .advise("give a larger cluster_size"));
    }
    if options.flag("big_writes") == Some(true) && options.word("driver") != Some(NTFS_3G) {
        return Err(Reason::new("ntfs: `big_writes` is an option of ntfs-3g")
            .advise("add driver = \"ntfs-3g\", or leave it out"));
    }
    Ok(())
}

/// Whether ntfs3 serves it.
fn by_kernel(options: &Options, here: &Here) -> bool {
    match options.word("driver") {
        Some(NTFS3) => true,
        Some(NTFS_3G) => false,
        _ => here.serves.contains(NTFS3),
    }
}

/// Where it is not known what the kernel has, nothing is said of it.
fn unsupported(options: &Options, here: &Here) -> Option<Reason> {
    let wanted = if by_kernel(options, here) { NTFS3 } else { FUSE };
    if here.serves.is_empty() || here.serves.contains(wanted) {
        return None;
    }
    let message = format!("this kernel ({}) has no {wanted}", here.release);
    Some(Reason::new(message).advise(if wanted == NTFS3 {
        "use driver = \"ntfs-3g\", or a kernel from 5.15 on that was built with ntfs3"
    } else {
        "use a kernel that has FUSE, or one from 5.15 on with ntfs3"
    }))
}

/// ntfs-3g stays in the foreground, so that it is known when it ended and what it said.
fn adjust_mount(options: &Options, here: &Here, plan: &mut MountPlan) {
    let kernel = by_kernel(options, here);
    plan.stated.push(("served_by".to_string(), if kernel { NTFS3 } else { NTFS_3G }.to_string()));
    if kernel {
        plan.fstype = NTFS3.to_string();
        return;
    }
    let mut words = vec!["no_detach".to_string()];
    words.extend((options.flag("big_writes") == Some(true)).then(|| "big_writes".to_string()));
    words.extend(plan.words());
    let args = vec!["-o".to_string(), words.join(","), plan.source.clone(), POINT.to_string()];
    plan.helper = Some(CommandLine { program: NTFS_3G.to_string(), args });
}

/// FUSE registers a backing-device info of its own, `<device number>-fuseblk`, for a mounted device.
fn driver(sys_fs: &Path, kernel_device: &str) -> Option<String> {
    let sys = sys_fs.parent()?;
    let number = fs::read_to_string(sys.join("class/block").join(kernel_device).join("dev")).ok()?;
    let own = sys.join("class/bdi").join(format!("{}-{FUSE}", number.trim()));
    own.exists().then(|| NTFS_3G.to_string())
}

fn driver_hint(config: &crate::here::KernelConfig) -> Option<String> {
    let known = [("CONFIG_NTFS3_FS", NTFS3), ("CONFIG_FUSE_FS", NTFS_3G)];
    known.iter().find(|(symbol, _)| config.has(symbol)).map(|(_, driver)| driver.to_string())
}

/// Exit codes of ntfsfix; ntfsfix(8) names none: 0 or not.
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("what ntfsfix looks at is in order (no full check)"),
        1 => ToolVerdict::bad("errors found and left as they are, or no volume that it knows"),
        _ => ToolVerdict::unknown(),
    }
}

/// Types of attributes of a record of the master file table.
const VOLUME_NAME: u32 = 0x60;
const VOLUME_INFORMATION: u32 = 0x70;
const END: u32 = 0xFFFF_FFFF;
/// The record that describes the volume.
const VOLUME: u64 = 3;

/// Reads the boot sector and the record of the volume. Layout: Linux `fs/ntfs3/ntfs.h`, `struct
/// NTFS_BOOT`, `MFT_REC`, `ATTRIB`, `VOLUME_INFO`.
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let boot = Block::read(medium, 0, 512, "NTFS superblock (boot sector)")?;
    if boot.slice(3, 8) != b"NTFS    " {
        return Err(Reason::new("no NTFS superblock here (its magic number is missing in the boot sector)"));
    }
    let sector = block_size(u64::from(boot.le16(11)).max(1), "NTFS superblock (sector)")
        .or_else(|reason| if boot.le16(11) == 256 { Ok(256) } else { Err(reason) })?;
    let cluster = block_size(scaled(boot.byte(13), sector), "NTFS superblock (cluster)")?;
    // A count of clusters, or with its sign the power of two of bytes.
    let record = match boot.byte(64) {
        small @ 0..0x80 => u64::from(small) * cluster,
        negative => 1u64.checked_shl(256 - u32::from(negative)).unwrap_or(0),
    };
    let record = block_size(record, "NTFS superblock (file record)")?;
    let at = boot.le64(48).saturating_mul(cluster).saturating_add(VOLUME * record);
    let volume = volume(medium, at, record as usize)?;
    let facts = BTreeMap::from([
        // The last sector, the boot sector's copy, is not counted there.
        ("size".to_string(), json!(boot.le64(40).saturating_add(1).saturating_mul(sector))),
        ("block_size".to_string(), json!(cluster)),
        ("cluster_size".to_string(), json!(cluster)),
        ("sector_size".to_string(), json!(sector)),
        ("record_size".to_string(), json!(record)),
        ("version".to_string(), json!(volume.version)),
        ("features".to_string(), json!(volume.flags)),
        ("label".to_string(), json!(volume.label)),
    ]);
    Ok(Superblock { uuid: volume.label, facts })
}

/// What the volume tells of its upkeep: nothing of what others tell.
fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    superblock(medium).map(|_| Upkeep::default())
}

/// Sectors of a cluster, or from 0x80 on with its sign the power of two of them.
fn scaled(count: u8, sector: u64) -> u64 {
    match count {
        small @ 0..=0x80 => u64::from(small) * sector,
        negative => 1u64.checked_shl(256 - u32::from(negative)).unwrap_or(0).saturating_mul(sector),
    }
}

#[derive(Default)]
struct Volume {
    label: String,
    version: String,
    flags: Vec<String>,
}

/// Linux `fs/ntfs3/ntfs.h`, `VOLUME_FLAG_*`.
const VOLUME_BITS: &[(u64, &str)] = &[
    (0x1, "dirty"),
    (0x2, "resize_log"),
    (0x4, "upgrade"),
    (0x8, "mounted_on_nt4"),
    (0x10, "delete_usn"),
    (0x20, "repair_ids"),
    (0x8000, "modified_by_chkdsk"),
];

fn volume(medium: &mut dyn Medium, at: u64, length: usize) -> Result<Volume, Reason> {
    let block = Block::read(medium, at, length, "NTFS superblock (volume's file record)")?;
    if block.slice(0, 4) != b"FILE" {
        return Err(Reason::new("the NTFS superblock points to no file record for the volume"));
    }
    let block = restored(&block, length)?;
    let mut volume = Volume::default();
    let mut attribute = usize::from(block.le16(20));
    while attribute + 24 <= length {
        let (kind, size) = (block.le32(attribute), block.le32(attribute + 4) as usize);
        if kind == END || size < 24 || attribute + size > length {
            break;
        }
        let value = attribute + usize::from(block.le16(attribute + 20));
        let value_length = (block.le32(attribute + 16) as usize).min(size);
        match (kind, block.byte(attribute + 8)) {
            (VOLUME_NAME, 0) => {
                let units: Vec<u16> = (0..value_length / 2).map(|n| block.le16(value + 2 * n)).collect();
                volume.label = String::from_utf16_lossy(&units);
            }
            (VOLUME_INFORMATION, 0) => {
                volume.version = format!("{}.{}", block.byte(value + 8), block.byte(value + 9));
                volume.flags = names("flag", u64::from(block.le16(value + 10)), VOLUME_BITS);
            }
            _ => {}
        }
        attribute += size;
    }
    Ok(volume)
}

/// A record as it was before it was written: its last two bytes of each 512 were replaced by a
/// number that tells a torn write, and lie in an array of the record's head.
fn restored(block: &Block, length: usize) -> Result<Block, Reason> {
    let (array, count) = (usize::from(block.le16(4)), usize::from(block.le16(6)));
    if count != length / 512 + 1 || array + 2 * count > length {
        return Err(Reason::new("the NTFS superblock's file record for the volume is damaged"));
    }
    let mut bytes = block.slice(0, length);
    let number = block.slice(array, 2);
    for (n, tail) in (1..count).map(|n| (n, n * 512 - 2)) {
        if bytes[tail..tail + 2] != number {
            return Err(Reason::new("the NTFS superblock's file record for the volume is torn"));
        }
        bytes[tail..tail + 2].copy_from_slice(&block.slice(array + 2 * n, 2));
    }
    Ok(Block::new(bytes))
}
