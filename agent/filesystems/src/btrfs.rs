//! Btrfs.

mod audit;
mod superblock;

use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::argv::Argv;
use crate::barriers::{BarrierOff, Off};
use crate::extra::MkfsFlag;
use crate::filesystem::{DiscardOff, Disk, FileSystem, Identity, Program};
use crate::here::{Change, Here};
use crate::options::{Choice, EXTRA_MOUNT, Feature, Kind, NOATIME, OptionRow, Options, Rule, extra_mkfs};
use crate::plan::POINT;
use crate::verdict::{ToolVerdict, grown, made};

pub(crate) static BTRFS: FileSystem = FileSystem {
    name: "btrfs",
    summary: "copy on write, checksummed data and metadata",
    fstype: "btrfs",
    disk: Some(Disk {
        // What mkfs.btrfs names as the least with duplicated metadata.
        minimum_size: Bytes(114_294_784),
        mkfs: Program { name: "mkfs.btrfs", package: "btrfs-progs", version: &["-V"], exit: made },
        lists: &[],
        mkfs_arguments: arguments,
        check: Ok((
            Program { name: "btrfs", package: "btrfs-progs", version: &["--version"], exit: checked },
            &["check", "--readonly"],
        )),
        check_by_hand: &["check", "--readonly"],
        identity: Identity::Uuid,
        geometry: None,
        grow: Ok((
            Program { name: "btrfs", package: "btrfs-progs", version: &["--version"], exit: grown },
            &["filesystem", "resize", "max", POINT],
        )),
        superblock: superblock::superblock,
        is_it: |_| true,
        upkeep: audit::upkeep,
        elsewhere: &[],
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: Some(BarrierOff::MountOption(&[Off { shown: "nobarrier", back: Some("barrier") }])),
    flushes: true,
    counts_inodes: true,
    notes: &[
        "Metadata is kept twice (profile dup) on one device unless told otherwise, since btrfs-progs 5.15; the \
         profile found on the medium is recorded.",
        "Direct writes to checksummed files are buffered by newer kernels (about 6.15): read direct writes with \
         the pages dirtied.",
        "Read-ahead is its own (bdi of the mount); the device's has no effect.",
    ],
    options: &[
        OptionRow {
            name: "metadata",
            kind: Kind::Word(&["single", "dup"]),
            rule: Rule::MkfsWord("-m"),
            help: "How often metadata is kept (mkfs.btrfs -m). Left out, mkfs.btrfs decides: dup on one device.",
        },
        OptionRow {
            name: "data",
            kind: Kind::Word(&["single", "dup"]),
            rule: Rule::MkfsWord("-d"),
            help: "How often data is kept (mkfs.btrfs -d). Left out: single.",
        },
        OptionRow {
            name: "node_size",
            kind: Kind::SizeOf(&[4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]),
            rule: Rule::MkfsWord("-n"),
            help: "Size of a node of the trees (mkfs.btrfs -n). Left out: 16 KiB.",
        },
        OptionRow {
            name: "sector_size",
            kind: Kind::SizeOf(&[4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10]),
            rule: Rule::MkfsWord("-s"),
            help: "Unit of data (mkfs.btrfs -s): 4 KiB, or what the kernel can, which is a page at most.",
        },
        OptionRow {
            name: "checksum",
            kind: Kind::Word(&["crc32c", "xxhash64", "sha256", "blake2b"]),
            rule: Rule::MkfsWord("--csum"),
            help: "How data and metadata are checksummed (mkfs.btrfs --csum). Left out: crc32c.",
        },
        OptionRow {
            name: "features",
            kind: Kind::Strings,
            rule: Rule::MkfsFeatures(FEATURES),
            help: "Features to turn on, or off with ^ before them (mkfs.btrfs -O and -R). Each is read back from the \
                   superblock.",
        },
        OptionRow {
            name: "discard",
            kind: Kind::Flag(false),
            rule: Rule::MkfsOwn,
            help: "mkfs discards the device first (mkfs.btrfs without -K). The mount's own discarding is not \
                   touched.",
        },
        extra_mkfs(FLAGS),
        NOATIME,
        OptionRow {
            name: "barrier",
            kind: Kind::Flag(true),
            rule: Rule::MountSwitch { param: ("nobarrier", None), shown: &["nobarrier"] },
            help: "Flush the device's cache where order matters (mount -o nobarrier if false). false is fast and \
                   loses data, or the whole file system, when the power goes.",
        },
        OptionRow {
            name: "nodatacow",
            kind: Kind::Flag(false),
            rule: Rule::MountSwitch { param: ("nodatacow", None), shown: &["nodatacow"] },
            help: "New files are written in place, without data checksums (mount -o nodatacow). Excludes compression.",
        },
        OptionRow {
            name: "nodatasum",
            kind: Kind::Flag(false),
            rule: Rule::MountSwitch { param: ("nodatasum", None), shown: &["nodatasum"] },
            help: "Data of new files is not checksummed (mount -o nodatasum). Excludes compression.",
        },
        OptionRow {
            name: "compress",
            kind: Kind::Word(COMPRESSIONS),
            rule: Rule::MountValue { key: "compress", silent: None },
            help: "Data is compressed where that seems worth it, with a level after a colon (mount -o compress=).",
        },
        OptionRow {
            name: "compress_force",
            kind: Kind::Word(COMPRESSIONS),
            rule: Rule::MountValue { key: "compress-force", silent: None },
            help: "Data is compressed whether it seems worth it or not (mount -o compress-force=).",
        },
        OptionRow {
            name: "space_cache",
            kind: Kind::Word(&["v2", "v1", "no"]),
            rule: Rule::MountChoice(&[
                Choice { value: "v2", param: ("space_cache", Some("v2")), shown: Some("space_cache=v2") },
                Choice { value: "v1", param: ("space_cache", Some("v1")), shown: Some("space_cache") },
                Choice { value: "no", param: ("nospace_cache", None), shown: Some("nospace_cache") },
            ]),
            help: "Where free space is kept track of (mount -o space_cache=, nospace_cache). v1 and no only without \
                   the feature free-space-tree, which is the default of mkfs.btrfs since 5.15.",
        },
        OptionRow {
            name: "ssd",
            kind: Kind::Word(&["on", "off", "spread"]),
            rule: Rule::MountChoice(&[
                Choice { value: "on", param: ("ssd", None), shown: Some("ssd") },
                Choice { value: "off", param: ("nossd", None), shown: Some("nossd") },
                Choice { value: "spread", param: ("ssd_spread", None), shown: Some("ssd_spread") },
            ]),
            help: "Whether the device is treated as one without seeks (mount -o ssd, nossd, ssd_spread). Left out, it \
                   follows the device's queue/rotational.",
        },
        OptionRow {
            name: "online_discard",
            kind: Kind::Word(&["off", "sync", "async"]),
            rule: Rule::MountChoice(&[
                Choice { value: "off", param: ("nodiscard", None), shown: None },
                Choice { value: "sync", param: ("discard", Some("sync")), shown: Some("discard") },
                Choice { value: "async", param: ("discard", Some("async")), shown: Some("discard=async") },
            ]),
            help: "Whether freed blocks are discarded, at each commit or later (mount -o discard=). Left out: async \
                   since Linux 6.2 where the device can discard.",
        },
        OptionRow {
            name: "autodefrag",
            kind: Kind::Flag(false),
            rule: Rule::MountSwitch { param: ("autodefrag", None), shown: &["autodefrag"] },
            help: "Small random writes are rewritten together later (mount -o autodefrag).",
        },
        OptionRow {
            name: "commit",
            kind: Kind::Seconds(1, 300),
            rule: Rule::MountValue { key: "commit", silent: Some("30") },
            help: "Longest time between commits (mount -o commit=).",
        },
        OptionRow {
            name: "max_inline",
            kind: Kind::Size(0, 4096),
            rule: Rule::MountValue { key: "max_inline", silent: Some("2048") },
            help: "Files up to this size are kept in the metadata (mount -o max_inline=).",
        },
        OptionRow {
            name: "thread_pool",
            kind: Kind::Number(1, 1024),
            rule: Rule::MountQuiet("thread_pool"),
            help: "Worker threads (mount -o thread_pool=). Left out, the CPUs + 2, at most 8.",
        },
        EXTRA_MOUNT,
        OptionRow {
            name: "check_mode",
            kind: Kind::Word(&["original", "lowmem"]),
            rule: Rule::CheckValue { flag: "--mode", key: "", unit: 1 },
            help: "original keeps inodes and extents in memory; lowmem reads blocks again when it needs them (btrfs \
                   check --mode). Left out: original.",
        },
        OptionRow {
            name: "check_data_csum",
            kind: Kind::Flag(false),
            rule: Rule::CheckSwitch("--check-data-csum"),
            help: "The check reads all data and verifies its checksums too (btrfs check --check-data-csum).",
        },
    ],
    refuse,
    unsupported,
    adjust_mount: |_, _, _| {},
    modules: &["btrfs"],
    driver,
    driver_hint: |config| config.has("CONFIG_BTRFS_FS").then(|| "btrfs".to_string()),
    advise: Some(audit::advise),
};

/// Free-space-tree was a runtime feature (`-R`) at first; newer tools take it there as well.
const FEATURES: &[Feature] = &[
    Feature { name: "no-holes", fact: "no_holes", flag: "-O" },
    Feature { name: "free-space-tree", fact: "free_space_tree", flag: "-R" },
    Feature { name: "block-group-tree", fact: "block_group_tree", flag: "-O" },
    Feature { name: "skinny-metadata", fact: "skinny_metadata", flag: "-O" },
    Feature { name: "extref", fact: "extended_iref", flag: "-O" },
    Feature { name: "mixed-bg", fact: "mixed_groups", flag: "-O" },
    Feature { name: "raid-stripe-tree", fact: "raid_stripe_tree", flag: "-O" },
    Feature { name: "squota", fact: "simple_quota", flag: "-O" },
];

const COMPRESSIONS: &[&str] = &[
    "zlib", "zlib:1", "zlib:2", "zlib:3", "zlib:4", "zlib:5", "zlib:6", "zlib:7", "zlib:8", "zlib:9", "lzo",
    "zstd", "zstd:1", "zstd:2", "zstd:3", "zstd:4", "zstd:5", "zstd:6", "zstd:7", "zstd:8", "zstd:9",
    "zstd:10", "zstd:11", "zstd:12", "zstd:13", "zstd:14", "zstd:15",
];

/// Combinations that the kernel would refuse, or silently change.
fn refuse(options: &Options) -> Result<(), Reason> {
    let compression = ["compress", "compress_force"].into_iter().find(|name| options.get(name).is_some());
    if options.get("compress").is_some() && options.get("compress_force").is_some() {
        return Err(
            Reason::new("`compress` and `compress_force` exclude each other").advise("give one of them")
        );
    }
    let plain = ["nodatacow", "nodatasum"].into_iter().find(|name| options.flag(name) == Some(true));
    if let (Some(compression), Some(plain)) = (compression, plain) {
        return Err(Reason::new(format!("`{compression}` and {plain} = true exclude each other")).advise(
            "data that is written in place or without checksums is never compressed: leave one out",
        ));
    }
    if options.flag("nodatacow") == Some(true) && options.flag("nodatasum") == Some(false) {
        return Err(Reason::new(
            "nodatacow = true has no data checksums, and nodatasum = false asks for them",
        )
        .advise("leave `nodatasum` out"));
    }
    let tree = options.strings("features").all(|word| word != "^free-space-tree");
    if let Some(old) = options.word("space_cache").filter(|word| tree && *word != "v2") {
        return Err(Reason::new(format!(
            "the kernel does not mount space_cache = \"{old}\" over a free-space tree"
        ))
        .advise("add features = [\"^free-space-tree\"], or take v2"));
    }
    Ok(())
}

/// What came to btrfs after the oldest kernels that fsdyno runs on.
const CAME: &[Change] = &[
    ("block-group-tree", (6, 1), "leave it out, or take a newer kernel in a guest"),
    ("raid-stripe-tree", (6, 7), "leave it out, or take a newer kernel in a guest"),
    ("squota", (6, 7), "leave it out, or take a newer kernel in a guest"),
];

/// Mount options that Linux took away.
const DROPPED: &[Change] = &[
    ("inode_cache", (5, 11), "leave it out: free inode numbers are not cached any more"),
    ("noinode_cache", (5, 11), "leave it out: free inode numbers are not cached any more"),
];

fn unsupported(options: &Options, here: &Here) -> Option<Reason> {
    let sector = options.number("sector_size").unwrap_or(0);
    let beyond =
        here.page_size().filter(|page| sector > *page && !here.config.has("CONFIG_BTRFS_EXPERIMENTAL"));
    if let Some(page) = beyond {
        return Some(
            Reason::new(format!(
                "btrfs: this kernel ({}) cannot mount sectors of {sector} bytes, larger than its page of {page}",
                here.release
            ))
            .advise("take sector_size = 4096"),
        );
    }
    here.dropped("btrfs", options, DROPPED).or_else(|| here.too_old("btrfs", options, CAME))
}

/// Left out: files (-r, --rootdir, --shrink), force (-f), another UUID (-U), making nothing (-V, --help),
/// and what was removed (-A, -l). mkfs.btrfs takes every word that is no flag for a device to overwrite.
const FLAGS: &[MkfsFlag] = &[
    MkfsFlag::with_value("-b"),
    MkfsFlag::with_value("--byte-count"),
    MkfsFlag::with_value("--csum"),
    MkfsFlag::with_value("--checksum"),
    MkfsFlag::with_value("-d"),
    MkfsFlag::with_value("--data"),
    MkfsFlag::alone("-K"),
    MkfsFlag::alone("--nodiscard"),
    MkfsFlag::with_value("-L"),
    MkfsFlag::with_value("--label"),
    MkfsFlag::with_value("-m"),
    MkfsFlag::with_value("--metadata"),
    MkfsFlag::alone("-M"),
    MkfsFlag::alone("--mixed"),
    MkfsFlag::with_value("-n"),
    MkfsFlag::with_value("--nodesize"),
    MkfsFlag::with_value("-O"),
    MkfsFlag::with_value("--features"),
    MkfsFlag::alone("-q"),
    MkfsFlag::alone("--quiet"),
    MkfsFlag::with_value("-R"),
    MkfsFlag::with_value("--runtime-features"),
    MkfsFlag::with_value("-s"),
    MkfsFlag::with_value("--sectorsize"),
    MkfsFlag::alone("-v"),
    MkfsFlag::alone("--verbose"),
];

fn arguments(argv: &mut Argv, options: &Options, uuid: &str, force: bool) {
    if force {
        argv.word("-f");
    }
    if options.flag("discard") != Some(true) {
        argv.word("-K");
    }
    argv.word("-U");
    argv.word(uuid);
}

/// `/sys/fs/btrfs/<uuid>/devices/<device>` exists while it is mounted.
fn driver(sys_fs: &Path, kernel_device: &str) -> Option<String> {
    let mut mounted = std::fs::read_dir(sys_fs.join("btrfs")).ok()?.flatten();
    mounted
        .any(|entry| entry.path().join("devices").join(kernel_device).exists())
        .then(|| "btrfs".to_string())
}

/// Exit codes of `btrfs check`, from btrfs-check(8): 0 or not.
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("no errors"),
        1 => ToolVerdict::bad("errors found and left as they are, or the device could not be opened"),
        _ => ToolVerdict::unknown(),
    }
}
