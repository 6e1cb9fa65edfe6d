//! F2FS.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::argv::Argv;
use crate::barriers::{BarrierOff, Off};
use crate::extra::MkfsFlag;
use crate::filesystem::{DiscardOff, Disk, FileSystem, Identity, Program};
use crate::here::Here;
use crate::medium::{Block, Medium, Superblock, names};
use crate::options::{EXTRA_MOUNT, Kind, NOATIME, ONLINE_DISCARD, OptionRow, Options, extra_mkfs};
use crate::plan::MountPlan;
use crate::rule::{Feature, Rule};
use crate::verdict::ToolVerdict;

pub(crate) static F2FS: FileSystem = FileSystem {
    name: "f2fs",
    summary: "several logs, for flash without a translation layer's help",
    fstype: "f2fs",
    disk: Some(Disk {
        // Found by trying mkfs.f2fs 1.15.
        minimum_size: Bytes::mib(52),
        mkfs: Program { name: "mkfs.f2fs", package: "f2fs-tools", version: &["-V"], exit: made },
        lists: &["-O"],
        mkfs_arguments: arguments,
        check: Ok((
            Program { name: "fsck.f2fs", package: "f2fs-tools", version: &["-V"], exit: checked },
            &["--dry-run"],
        )),
        check_by_hand: &["--dry-run"],
        identity: Identity::Uuid,
        geometry: None,
        grow: Err("an F2FS grows only while it is not mounted (resize.f2fs), which fsdyno does not do"),
        superblock,
        is_it: |_| true,
        upkeep,
        elsewhere: &[],
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: Some(BarrierOff::MountOption(&[
        // Linux 6.1 has no opposite of it: a remount with `barrier` fails.
        Off { shown: "nobarrier", back: None },
        Off { shown: "fsync_mode=nobarrier", back: Some("fsync_mode=posix") },
    ])),
    flushes: true,
    counts_inodes: false,
    notes: &[
        "mkfs.f2fs and the kernel discard by default; here neither does unless `discard` and `online_discard` \
         say so.",
        "A share of the device (overprovision) is kept from its user; left out, mkfs.f2fs computes it from the size.",
    ],
    options: &[
        OptionRow {
            name: "overprovision",
            kind: Kind::Number(1, 50),
            rule: Rule::MkfsWord("-o"),
            help: "Percent of the device kept for cleaning (mkfs.f2fs -o). Left out: computed from its size.",
        },
        OptionRow {
            name: "segments_per_section",
            kind: Kind::Number(1, 1024),
            rule: Rule::MkfsWord("-s"),
            help: "Segments of 2 MiB that are cleaned together (mkfs.f2fs -s). Left out: 1.",
        },
        OptionRow {
            name: "features",
            kind: Kind::Strings,
            rule: Rule::MkfsFeatures(FEATURES),
            help: "Features of the format (mkfs.f2fs -O), for instance [\"extra_attr\", \"inode_checksum\", \
                   \"sb_checksum\", \"compression\"]. mkfs.f2fs cannot turn one off.",
        },
        OptionRow {
            name: "discard",
            kind: Kind::Flag(false),
            rule: Rule::MkfsOwn,
            help: "mkfs discards the device first (mkfs.f2fs -t 1, else -t 0).",
        },
        extra_mkfs(FLAGS),
        NOATIME,
        OptionRow {
            name: "barrier",
            kind: Kind::Flag(true),
            rule: Rule::MountSwitch { param: ("nobarrier", None), shown: &["nobarrier"] },
            help: "Flush the device's cache where order matters (mount -o nobarrier if false). false loses data \
                   when the power goes.",
        },
        OptionRow {
            name: "background_gc",
            kind: Kind::Word(&["on", "off", "sync"]),
            rule: Rule::MountValue { key: "background_gc", silent: None },
            help: "Whether the kernel cleans while the device is idle (mount -o background_gc=). Left out: on.",
        },
        OptionRow {
            name: "fsync_mode",
            kind: Kind::Word(&["posix", "strict", "nobarrier"]),
            rule: Rule::MountValue { key: "fsync_mode", silent: None },
            help: "What fsync promises: posix, the file; strict, its directory too; nobarrier, posix without a \
                   flush (mount -o fsync_mode=). Left out: posix.",
        },
        ONLINE_DISCARD,
        EXTRA_MOUNT,
    ],
    refuse,
    unsupported,
    adjust_mount,
    modules: &["f2fs"],
    driver: |sys_fs: &Path, device| sys_fs.join("f2fs").join(device).exists().then(|| "f2fs".to_string()),
    driver_hint: |config| config.has("CONFIG_F2FS_FS").then(|| "f2fs".to_string()),
    advise: None,
};

/// Left out: other devices (-c), force (-f, and -g android, which has it), another UUID (-U), sparse
/// images (-S), zoned devices (-m).
const FLAGS: &[MkfsFlag] = &[
    MkfsFlag::with_value("-a"),
    MkfsFlag::with_value("-C"),
    MkfsFlag::with_value("-e"),
    MkfsFlag::with_value("-E"),
    MkfsFlag::alone("-i"),
    MkfsFlag::with_value("-l"),
    MkfsFlag::with_value("-O"),
    MkfsFlag::alone("-r"),
    MkfsFlag::with_value("-w"),
    MkfsFlag::with_value("-z"),
];

/// Names of mkfs.f2fs(8); those of the superblock are the same.
const FEATURES: &[Feature] = &[
    feature("encrypt"),
    feature(EXTRA_ATTR),
    feature("project_quota"),
    feature("inode_checksum"),
    feature("flexible_inline_xattr"),
    feature("quota"),
    feature("inode_crtime"),
    feature("lost_found"),
    feature("verity"),
    feature("sb_checksum"),
    feature("compression"),
];

const fn feature(name: &'static str) -> Feature {
    Feature { name, fact: name, flag: "-O" }
}

const EXTRA_ATTR: &str = "extra_attr";
/// Features that mkfs.f2fs refuses without [`EXTRA_ATTR`].
const NEED_EXTRA_ATTR: &[&str] =
    &["project_quota", "inode_checksum", "flexible_inline_xattr", "inode_crtime", "compression"];

fn arguments(argv: &mut Argv, options: &Options, uuid: &str, force: bool) {
    argv.word("-q");
    if force {
        argv.word("-f");
    }
    argv.word("-t");
    argv.word(if options.flag("discard") == Some(true) { "1" } else { "0" });
    argv.word("-U");
    argv.word(uuid);
}

fn refuse(options: &Options) -> Result<(), Reason> {
    let asked: Vec<&str> = options.strings("features").collect();
    if let Some(off) = asked.iter().find(|name| name.starts_with('^')) {
        return Err(Reason::new(format!(
            "f2fs: `features` cannot have `{off}`: mkfs.f2fs turns nothing off"
        ))
        .advise("leave it out: no feature is on unless it is named"));
    }
    match asked.iter().find(|name| NEED_EXTRA_ATTR.contains(name)) {
        Some(name) if !asked.contains(&EXTRA_ATTR) => {
            Err(Reason::new(format!("f2fs: the feature `{name}` needs `{EXTRA_ATTR}`"))
                .advise(format!("add \"{EXTRA_ATTR}\" to `features`")))
        }
        _ => Ok(()),
    }
}

/// mkfs.f2fs takes a UUID (-U) since f2fs-tools 1.15.
fn unsupported(_: &Options, here: &Here) -> Option<Reason> {
    let line = here.tools.get("mkfs.f2fs")?;
    let version = line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = version.split('.').map(|n| n.parse().unwrap_or(0u32));
    let found = (numbers.next()?, numbers.next()?);
    (found < (1, 15)).then(|| {
        Reason::new(format!("mkfs.f2fs {version} takes no UUID, by which a medium of ours is known"))
            .advise("install f2fs-tools 1.15 or later")
    })
}

/// The kernel discards unless told not to.
fn adjust_mount(options: &Options, _here: &Here, plan: &mut MountPlan) {
    if options.flag("online_discard") != Some(true) {
        plan.params.push(("nodiscard".to_string(), None));
    }
}

/// Exit codes of mkfs.f2fs: 0, else 1 by its manual and 255 in fact.
fn made(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("made"),
        1 | 255 => ToolVerdict::bad("refused or failed; its messages say why"),
        _ => ToolVerdict::unknown(),
    }
}

/// Exit codes of fsck.f2fs: 0, else -1 by fsck.f2fs(8).
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("no errors"),
        255 => ToolVerdict::bad("errors found and left as they are, or no file system that it knows"),
        _ => ToolVerdict::unknown(),
    }
}

const OFFSET: u64 = 1024;
const LENGTH: usize = 3072;
const MAGIC: u32 = 0xF2F5_2010;
/// Blocks of F2FS have the size of a page; so do those of a checkpoint.
const BLOCK_SHIFTS: std::ops::RangeInclusive<u32> = 12..=16;

const FEATURE_BITS: &[(u64, &str)] = &[
    (0x1, "encrypt"),
    (0x2, "zoned"),
    (0x4, "atomic_write"),
    (0x8, EXTRA_ATTR),
    (0x10, "project_quota"),
    (0x20, "inode_checksum"),
    (0x40, "flexible_inline_xattr"),
    (0x80, "quota"),
    (0x100, "inode_crtime"),
    (0x200, "lost_found"),
    (0x400, "verity"),
    (0x800, "sb_checksum"),
    (0x1000, "casefold"),
    (0x2000, "compression"),
    (0x4000, "ro"),
    (0x8000, "device_alias"),
    (0x1_0000, "packed_ssa"),
];

/// Reads the superblock and the newer one of two checkpoints. Layout: Linux
/// `include/linux/f2fs_fs.h`, `struct f2fs_super_block` and `struct f2fs_checkpoint`.
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "F2FS superblock")?;
    if block.le32(0) != MAGIC {
        return Err(Reason::new("no F2FS superblock here (its magic number is missing)"));
    }
    let (shift, segment_shift) = (block.le32(16), block.le32(20));
    if !BLOCK_SHIFTS.contains(&shift) || segment_shift > 16 {
        return Err(Reason::new(format!(
            "F2FS superblock: blocks of 2^{shift} bytes, 2^{segment_shift} to a segment, cannot be"
        )));
    }
    let size = 1u64 << shift;
    let blocks = block.le64(36);
    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(blocks.saturating_mul(size))),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        ("sector_size".to_string(), json!(1u64.checked_shl(block.le32(8)).unwrap_or(0))),
        ("segment_size".to_string(), json!(size << segment_shift)),
        ("segments_per_section".to_string(), json!(block.le32(24))),
        ("segments".to_string(), json!(block.le32(48))),
        ("version".to_string(), json!(format!("{}.{}", block.le16(4), block.le16(6)))),
        ("features".to_string(), json!(names("feature", u64::from(block.le32(2180)), FEATURE_BITS))),
    ]);
    let first = u64::from(block.le32(76)) << shift;
    let packs = [first, first + (size << segment_shift)]
        .into_iter()
        .filter_map(|at| Block::read(medium, at, 192, "F2FS checkpoint").ok());
    if let Some(newer) = packs.max_by_key(|pack| pack.le64(0)) {
        facts.insert("reserved_segments".to_string(), json!(newer.le32(24)));
        facts.insert("overprovision_segments".to_string(), json!(newer.le32(28)));
    }
    Ok(Superblock { uuid: block.uuid(108), facts })
}

/// Reads the upkeep: all metadata is in blocks.
fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let smallest_write = facts.get("block_size").and_then(Value::as_u64).map(Bytes);
    Ok(Upkeep { smallest_write, ..Upkeep::default() })
}
