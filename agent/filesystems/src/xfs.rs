//! XFS.

mod audit;
mod superblock;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::argv::Argv;
use crate::barriers::{BarrierOff, Off};
use crate::extra::MkfsFlag;
use crate::filesystem::{DiscardOff, Disk, Elsewhere, FileSystem, Identity, Program};
use crate::geometry::Geometry;
use crate::geometry_rule::{Facts, GeometryRule};
use crate::here::{Change, Here};
use crate::options::{
    EXTRA_MOUNT, GEOMETRY, Kind, NOATIME, ONLINE_DISCARD, OptionRow, Options, Rule, extra_mkfs,
    geometry_alone,
};
use crate::plan::POINT;
use crate::verdict::{ToolVerdict, grown, made};

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
        check_by_hand: &["-n"],
        identity: Identity::Uuid,
        geometry: Some(GeometryRule {
            mkfs: geometry_arguments,
            least: Some(LEAST_STRIPED),
            facts: geometry_facts,
            tell: audit::tell,
            shown: &[("sunit", "sunit"), ("swidth", "swidth")],
            ignored_by: Some(NOALIGN),
            mend: audit::mend,
        }),
        grow: Ok((
            Program { name: "xfs_growfs", package: "xfsprogs", version: &["-V"], exit: grown },
            &["-d", POINT],
        )),
        superblock: superblock::superblock,
        is_it: |_| true,
        upkeep: audit::upkeep,
        elsewhere: &[
            Elsewhere { what: "its log", fact: "external_log", shown: Some("logdev") },
            Elsewhere { what: "realtime data", fact: "external_realtime", shown: Some("rtdev") },
        ],
        discard_off: Some(DiscardOff::FreshMount),
    }),
    barrier_off: Some(BarrierOff::Queue(&[Off { shown: "nobarrier", back: Some("barrier") }])),
    flushes: true,
    counts_inodes: true,
    notes: &[
        "The kernel has no barrier option for XFS any more: barrier = false sets queue/write_cache to write \
         through, which sends no flushes either.",
        "xfs_repair -n skips the rebuilding of phase 5: its time is not the time of a repair.",
        "xfs_repair -n exits 1 on a log that was not replayed, with nothing else wrong: mount first after a crash.",
    ],
    options: &[
        OptionRow {
            name: "block_size",
            kind: Kind::SizeOf(&[1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]),
            rule: Rule::MkfsGroup("-b", "size"),
            help: "Size of a block (mkfs.xfs -b size=). Larger than a page of memory: Linux 6.12 and newer.",
        },
        OptionRow {
            name: "agcount",
            kind: Kind::Number(1, u32::MAX as u64),
            rule: Rule::MkfsGroup("-d", "agcount"),
            help: "Number of allocation groups (mkfs.xfs -d agcount=).",
        },
        GEOMETRY,
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
            kind: Kind::SizeOf(&[256, 512, 1024, 2048]),
            rule: Rule::MkfsGroup("-i", "size"),
            help: "Size of an inode (mkfs.xfs -i size=). 256 only with crc = false.",
        },
        OptionRow {
            name: "crc",
            kind: Kind::Switch,
            rule: Rule::MkfsSwitch("-m", "crc"),
            help: "Checksummed metadata (mkfs.xfs -m crc=). false: version 4 of the format, which newer kernels leave out.",
        },
        OptionRow {
            name: "finobt",
            kind: Kind::Switch,
            rule: Rule::MkfsSwitch("-m", "finobt"),
            help: "A tree of free inodes (mkfs.xfs -m finobt=).",
        },
        OptionRow {
            name: "rmapbt",
            kind: Kind::Switch,
            rule: Rule::MkfsSwitch("-m", "rmapbt"),
            help: "A tree of who owns which block, for repairs while mounted (mkfs.xfs -m rmapbt=). On by \
                   default from xfsprogs 6.5.",
        },
        OptionRow {
            name: "reflink",
            kind: Kind::Switch,
            rule: Rule::MkfsSwitch("-m", "reflink"),
            help: "Files can share blocks (mkfs.xfs -m reflink=).",
        },
        OptionRow {
            name: "bigtime",
            kind: Kind::Switch,
            rule: Rule::MkfsSwitch("-m", "bigtime"),
            help: "Times beyond 2038 (mkfs.xfs -m bigtime=).",
        },
        OptionRow {
            name: "lazy_count",
            kind: Kind::Switch,
            rule: Rule::MkfsSwitch("-l", "lazy-count"),
            help: "Counters of the superblock are not logged at each change (mkfs.xfs -l lazy-count=). false \
                   only with crc = false.",
        },
        OptionRow {
            name: "log_size",
            kind: Kind::Size(2 << 20, 2038 << 20),
            rule: Rule::MkfsGroup("-l", "size"),
            help: "Size of the log on the device (mkfs.xfs -l size=). Left out, it follows the size of the device.",
        },
        OptionRow {
            name: "log_stripe_unit",
            kind: Kind::SizeOf(&[4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10]),
            rule: Rule::MkfsGroup("-l", "su"),
            help: "What writes to the log are a multiple of, bytes (mkfs.xfs -l su=). Left out, it is the chunk of the \
                   array, or 32 KiB where that is above 256 KiB.",
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
        OptionRow {
            name: "logbufs",
            kind: Kind::Number(2, 8),
            rule: Rule::MountValue { key: "logbufs", silent: None },
            help: "Number of log buffers in memory (mount -o logbufs=).",
        },
        OptionRow {
            name: "allocsize",
            kind: Kind::SizeOf(&ALLOCSIZES),
            rule: Rule::MountValue { key: "allocsize", silent: None },
            help: "How far beyond the end of a growing file blocks are reserved (mount -o allocsize=). Left out, the \
                   kernel chooses by the file's size.",
        },
        OptionRow {
            name: "inode64",
            kind: Kind::Flag(true),
            rule: Rule::MountSwitch { param: ("inode32", None), shown: &["inode32"] },
            help: "Inodes anywhere on the device (mount -o inode32 if false: only in its first TiB).",
        },
        OptionRow {
            name: "largeio",
            kind: Kind::Flag(false),
            rule: Rule::MountSwitch { param: ("largeio", None), shown: &["largeio"] },
            help: "stat tells programs the stripe, or allocsize, as the best size of a request (mount -o largeio).",
        },
        OptionRow {
            name: "swalloc",
            kind: Kind::Flag(false),
            rule: Rule::MountSwitch { param: ("swalloc", None), shown: &["swalloc"] },
            help: "Large files are aligned to the stripe, not the chunk (mount -o swalloc).",
        },
        OptionRow {
            name: "mount_sunit",
            kind: Kind::Number(8, u32::MAX as u64),
            rule: Rule::MountValue { key: "sunit", silent: None },
            help: "Chunk in 512-byte sectors for this mount (mount -o sunit=), with mount_swidth. Only a file system \
                   takes it that was made with a geometry and whose allocation groups are a multiple of it.",
        },
        OptionRow {
            name: "mount_swidth",
            kind: Kind::Number(8, u32::MAX as u64),
            rule: Rule::MountValue { key: "swidth", silent: None },
            help: "Stripe in 512-byte sectors for this mount (mount -o swidth=), a multiple of mount_sunit.",
        },
        ONLINE_DISCARD,
        EXTRA_MOUNT,
        OptionRow {
            name: "check_ag_stride",
            // Of four groups xfs_repair 6.1 checks 400 at a time in 13 MiB, but with 1000 it takes all memory.
            kind: Kind::Number(1, 256),
            rule: Rule::CheckValue { flag: "-o", key: "ag_stride=", unit: 1 },
            help: "The check has one thread for so many allocation groups, which run at once (xfs_repair -o \
                   ag_stride=). Left out: one thread, or several where there are many groups (32 with \
                   xfsprogs 6.1) and prefetch.",
        },
        OptionRow {
            name: "check_prefetch",
            kind: Kind::Flag(true),
            rule: Rule::CheckSwitch("-P"),
            help: "The check reads metadata ahead of its need (xfs_repair -P if false).",
        },
        OptionRow {
            name: "check_memory",
            kind: Kind::Size(1 << 20, 16 << 40),
            rule: Rule::CheckValue { flag: "-m", key: "", unit: 1 << 20 },
            help: "Memory that the check may take, about, whole MiB (xfs_repair -m). Left out: 3/4 of the machine's. \
                   If it is less than the check needs, that fails and says how much would do.",
        },
    ],
    refuse,
    unsupported,
    adjust_mount: |_, _, _| {},
    modules: &["xfs"],
    driver: |sys_fs, device| sys_fs.join("xfs").join(device).exists().then(|| "xfs".to_string()),
    driver_hint: |config| config.has("CONFIG_XFS_FS").then(|| "xfs".to_string()),
    advise: Some(audit::advise),
};

/// What mount -o allocsize= takes: powers of two from a page to 1 GiB.
const ALLOCSIZES: [u64; 19] = {
    let mut sizes = [4096; 19];
    let mut n = 1;
    while n < sizes.len() {
        sizes[n] = sizes[n - 1] << 1;
        n += 1;
    }
    sizes
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

/// The option of a mount that aligns nothing, and excludes `sunit` and `swidth`.
const NOALIGN: &str = "noalign";

/// With a geometry mkfs.xfs makes eight allocation groups, and one of them must hold a log of 64 MiB
/// (xfsprogs 6.1: 512 MiB are refused, 520 taken).
const LEAST_STRIPED: Bytes = Bytes::mib(520);

fn geometry_arguments(
    argv: &mut Argv,
    options: &Options,
    size: Bytes,
    geometry: Option<&Geometry>,
) -> Result<(), Reason> {
    if geometry.is_some() && size < LEAST_STRIPED && options.get("agcount").is_none() {
        return Err(too_small(size));
    }
    match geometry {
        None => argv.member("-d", "noalign"),
        Some(geometry) => {
            argv.member("-d", format!("su={}", geometry.chunk.0));
            argv.member("-d", format!("sw={}", geometry.data_disks));
        }
    }
    Ok(())
}

fn too_small(size: Bytes) -> Reason {
    Reason::new(format!("XFS with a geometry needs a device of {LEAST_STRIPED}, this one has {size}"))
        .advise("make the members larger; mkfs.xfs leaves a geometry that it detects out below 1 GiB")
}

fn geometry_facts(geometry: Option<&Geometry>, block_size: u64) -> Result<Facts, Reason> {
    let Some(geometry) = geometry else { return Ok(vec![("sunit", 0), ("swidth", 0)]) };
    // The superblock counts in blocks: what is no multiple of one cannot be kept.
    geometry.stride(block_size)?;
    Ok(vec![("sunit", geometry.sunit()), ("swidth", geometry.swidth())])
}

/// Mount options that Linux took away, from its `Documentation/admin-guide/xfs.rst`.
const DROPPED: &[Change] = &[
    ("barrier", (4, 19), "leave it out: XFS always flushes; barrier = false turns flushes off at the queue"),
    ("nobarrier", (4, 19), "write barrier = false instead: it turns flushes off at the queue of the device"),
];

/// What kernel and mkfs.xfs no longer do, or not yet.
fn unsupported(options: &Options, here: &Here) -> Option<Reason> {
    if let Some(reason) = here.dropped("xfs", options, DROPPED) {
        return Some(reason);
    }
    let unsupported = |what: String, instead: &str| Some(Reason::new(what).advise(instead));
    let v4 = options.flag("crc") == Some(false);
    if options.flag("lazy_count") == Some(false) && !v4 {
        return unsupported(
            "xfs: lazy_count = false is not possible with checksummed metadata (V5, the default since xfsprogs \
             3.2.3)"
                .to_string(),
            "leave it out, or add crc = false and take a kernel with XFS V4 (Debian 12's, in a guest)",
        );
    }
    if options.number("inode_size") == Some(256) && !v4 {
        return unsupported(
            "xfs: inodes of 256 bytes are not possible with checksummed metadata (V5, the default since xfsprogs \
             3.2.3)"
                .to_string(),
            "take inode_size = 512, or add crc = false and take a kernel with XFS V4 (Debian 12's, in a guest)",
        );
    }
    // The symbol came with Linux 5.10; before, V4 was always there.
    let optional = here.config.has("CONFIG_XFS_FS") && !here.older_than((5, 10));
    if v4 && optional && !here.config.has("CONFIG_XFS_SUPPORT_V4") {
        return unsupported(
            format!("xfs: this kernel ({}) was built without version 4 of the format", here.release),
            "leave crc = false out, or take a kernel built with CONFIG_XFS_SUPPORT_V4 (Debian 12's, in a guest): V4 \
             is deprecated, and off by default since Linux 6.18",
        );
    }
    let block = options.number("block_size").unwrap_or(0);
    if here.page_size().is_some_and(|page| block > page) && here.older_than((6, 12)) {
        return unsupported(
            format!("xfs: blocks larger than a page of memory need Linux 6.12; this is {}", here.release),
            "take block_size = 4096, or a newer kernel in a guest",
        );
    }
    None
}

fn refuse(options: &Options) -> Result<(), Reason> {
    geometry_alone(options, &["sunit", "swidth"])?;
    if options.flag("crc") == Some(false)
        && let Some(name) =
            ["finobt", "rmapbt", "reflink", "bigtime"].iter().find(|name| options.flag(name) == Some(true))
    {
        return Err(Reason::new(format!("`{name}` needs checksummed metadata, and crc = false"))
            .advise(format!("leave `{name}` out, or crc = false")));
    }
    match (options.number("mount_sunit"), options.number("mount_swidth")) {
        (None, None) => {}
        (Some(sunit), Some(swidth)) if swidth % sunit == 0 => {}
        _ => {
            return Err(Reason::new("`mount_sunit` and `mount_swidth` do not go together")
                .advise("give both: mount_swidth = mount_sunit x data disks"));
        }
    }
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
