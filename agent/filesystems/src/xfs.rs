//! XFS.

use std::collections::BTreeMap;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;
use serde_json::json;

use crate::argv::Argv;
use crate::extra::MkfsFlag;
use crate::filesystem::{BarrierOff, Disk, FileSystem, Identity, Program};
use crate::medium::{Block, Medium, Superblock, block_size, names};
use crate::options::{EXTRA_MOUNT, Kind, NOATIME, OptionRow, Options, Rule, extra_mkfs};
use crate::verdict::{ToolVerdict, made};

pub(crate) static XFS: FileSystem = FileSystem {
    name: "xfs",
    summary: "allocation groups, extents and B-trees, delayed logging",
    fstype: "xfs",
    disk: Some(Disk {
        // mkfs.xfs refuses less since xfsprogs 5.19.
        minimum_size: Bytes::mib(300),
        mkfs: Program { name: "mkfs.xfs", package: "xfsprogs", version: &["-V"], exit: made },
        lists: &["-b", "-d", "-i", "-l", "-m", "-n", "-s"],
        mkfs_arguments: arguments,
        check: Ok((
            Program { name: "xfs_repair", package: "xfsprogs", version: &["-V"], exit: checked },
            &["-n"],
        )),
        identity: Identity::Uuid,
        geometry: None,
        superblock,
    }),
    barrier_off: Some(BarrierOff::Queue),
    flushes: true,
    notes: &[
        "The kernel has no barrier option for XFS any more: barrier = false sets queue/write_cache to write \
         through, which sends no flushes either.",
        "xfs_repair -n skips the rebuilding of phase 5: its time is not the time of a repair.",
        "xfs_repair -n exits 1 on a log that was not replayed, with nothing else wrong: mount first after a crash.",
    ],
    options: &[
        OptionRow {
            name: "agcount",
            kind: Kind::Number(1, u32::MAX as u64),
            rule: Rule::MkfsGroup("-d", "agcount"),
            help: "Number of allocation groups (mkfs.xfs -d agcount=).",
        },
        OptionRow {
            name: "sunit",
            kind: Kind::Number(0, u32::MAX as u64),
            rule: Rule::MkfsGroup("-d", "sunit"),
            help: "Chunk of the array in 512-byte sectors, as mkfs.xfs -d sunit= takes it (not file-system \
                   blocks); with swidth. 0: not aligned, whatever the device says.",
        },
        OptionRow {
            name: "swidth",
            kind: Kind::Number(0, u32::MAX as u64),
            rule: Rule::MkfsGroup("-d", "swidth"),
            help: "Stripe of the array in 512-byte sectors: sunit x data disks (mkfs.xfs -d swidth=).",
        },
        OptionRow {
            name: "inode_size",
            kind: Kind::SizeOf(&[512, 1024, 2048]),
            rule: Rule::MkfsGroup("-i", "size"),
            help: "Size of an inode (mkfs.xfs -i size=). 256 is refused with checksummed metadata.",
        },
        OptionRow {
            name: "discard",
            kind: Kind::Flag(false),
            rule: Rule::MkfsOwn,
            help: "mkfs discards the device first (mkfs.xfs without -K).",
        },
        extra_mkfs(FLAGS),
        NOATIME,
        OptionRow {
            name: "barrier",
            kind: Kind::Flag(true),
            rule: Rule::Queue,
            help: "Flush the device's cache where order matters. false sets queue/write_cache of the device to \
                   write through, as XFS has no mount option for it; it loses data when the power goes.",
        },
        OptionRow {
            name: "logbsize",
            kind: Kind::SizeOf(&[16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10]),
            rule: Rule::MountValue { key: "logbsize", silent: None },
            help: "Size of each log buffer in memory (mount -o logbsize=).",
        },
        EXTRA_MOUNT,
    ],
    refuse,
    unsupported: |_, _| None,
    adjust_mount: |_, _, _| {},
    modules: &["xfs"],
    driver: |sys_fs, device| sys_fs.join("xfs").join(device).exists().then(|| "xfs".to_string()),
    driver_hint: |config| config.has("CONFIG_XFS_FS").then(|| "xfs".to_string()),
};

/// Left out: files (-c, -p), force (-f), making nothing (-N, -V). Values that name devices (`-d name=`,
/// `-l logdev=`, `-r rtdev=`) are refused as such.
const FLAGS: &[MkfsFlag] = &[
    MkfsFlag::with_value("-b"),
    MkfsFlag::with_value("-d"),
    MkfsFlag::with_value("-i"),
    MkfsFlag::alone("-K"),
    MkfsFlag::with_value("-l"),
    MkfsFlag::with_value("-L"),
    MkfsFlag::with_value("-m"),
    MkfsFlag::with_value("-n"),
    MkfsFlag::alone("-q"),
    MkfsFlag::with_value("-r"),
    MkfsFlag::with_value("-s"),
];

fn arguments(argv: &mut Argv, options: &Options, uuid: &str, force: bool) {
    if force {
        argv.word("-f");
    }
    if options.flag("discard") != Some(true) {
        argv.word("-K");
    }
    argv.member("-m", format!("uuid={uuid}"));
}

fn refuse(options: &Options) -> Result<(), Reason> {
    let together = |message: String| {
        Err(Reason::new(message).advise("give both: swidth = sunit x data disks; both 0 for no alignment"))
    };
    match (options.number("sunit"), options.number("swidth")) {
        (None, None) | (Some(0), Some(0)) => Ok(()),
        (Some(_), None) => together("`sunit` is given without `swidth`".to_string()),
        (None, Some(_)) => together("`swidth` is given without `sunit`".to_string()),
        (Some(sunit), Some(swidth)) if sunit == 0 || swidth == 0 || swidth % sunit != 0 => {
            together(format!("swidth = {swidth} is no multiple of sunit = {sunit}"))
        }
        (Some(sunit), Some(_)) if sunit % 8 != 0 => {
            Err(Reason::new(format!("sunit = {sunit} sectors is no multiple of a 4 KiB block (8 sectors)"))
                .advise("sunit is the chunk of the array in bytes / 512"))
        }
        _ => Ok(()),
    }
}

/// Exit codes of xfs_repair, from xfs_repair(8).
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("no errors"),
        1 => ToolVerdict::bad("errors found and left as they are, or a log that was not replayed"),
        2 => ToolVerdict::bad("a log that must be replayed by a mount first"),
        4 => ToolVerdict::bad("errors were corrected, although a check must not change anything"),
        _ => ToolVerdict::unknown(),
    }
}

const LENGTH: usize = 512;

const RO_COMPAT: &[(u64, &str)] = &[(0x1, "finobt"), (0x2, "rmapbt"), (0x4, "reflink"), (0x8, "inobtcount")];
const INCOMPAT: &[(u64, &str)] = &[
    (0x1, "ftype"),
    (0x2, "sparse"),
    (0x4, "meta_uuid"),
    (0x8, "bigtime"),
    (0x10, "needsrepair"),
    (0x20, "nrext64"),
    (0x40, "exchange"),
    (0x80, "parent"),
    (0x100, "metadir"),
];

/// Reads the superblock. Layout: Linux `fs/xfs/libxfs/xfs_format.h`, `struct xfs_dsb` (big-endian).
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, 0, LENGTH, "XFS superblock")?;
    if block.slice(0, 4) != b"XFSB" {
        return Err(Reason::new("no XFS superblock here (its magic number is missing)"));
    }
    let size = block_size(u64::from(block.be32(4)), "XFS superblock")?;
    let version = block.be16(100) & 0xF;
    let mut features: Vec<String> = Vec::new();
    if version >= 5 {
        features.push("crc".to_string());
        features.extend(names("compat", u64::from(block.be32(208)), &[]));
        features.extend(names("ro_compat", u64::from(block.be32(212)), RO_COMPAT));
        features.extend(names("incompat", u64::from(block.be32(216)), INCOMPAT));
        features.extend(names("log_incompat", u64::from(block.be32(220)), &[(0x1, "xattrs")]));
    }
    // The medium has blocks; the options have sectors, as mkfs.xfs.
    let sectors = |at: usize| u64::from(block.be32(at)) * (size / 512);
    let blocks = block.be64(8);
    let facts = BTreeMap::from([
        ("size".to_string(), json!(blocks.saturating_mul(size))),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        ("sector_size".to_string(), json!(block.be16(102))),
        ("agcount".to_string(), json!(block.be32(88))),
        ("agblocks".to_string(), json!(block.be32(84))),
        ("inode_size".to_string(), json!(block.be16(104))),
        ("log_size".to_string(), json!(u64::from(block.be32(96)) * size)),
        ("log_stripe_unit".to_string(), json!(block.be32(196))),
        ("sunit".to_string(), json!(sectors(184))),
        ("swidth".to_string(), json!(sectors(188))),
        ("version".to_string(), json!(version)),
        ("features".to_string(), json!(features)),
        ("label".to_string(), json!(block.text(108, 12))),
    ]);
    Ok(Superblock { uuid: block.uuid(32), facts })
}
