//! Btrfs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::advise::{Asked, Hints, step};
use crate::argv::Argv;
use crate::barriers::{BarrierOff, Off};
use crate::extra::MkfsFlag;
use crate::filesystem::{Disk, FileSystem, Identity, Program};
use crate::here::{Change, Here};
use crate::medium::{Block, Medium, Superblock, block_size, names};
use crate::options::{Choice, EXTRA_MOUNT, Feature, Kind, NOATIME, OptionRow, Options, Rule, extra_mkfs};
use crate::plan::{POINT, quote};
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
        superblock,
        is_it: |_| true,
        upkeep,
        elsewhere: &[],
    }),
    barrier_off: Some(BarrierOff::MountOption(&[Off { shown: "nobarrier", back: "barrier" }])),
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
    advise: Some(advise),
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

/// What it reads ahead by itself at least (`open_ctree` in `fs/btrfs/disk-io.c`).
const OWN_READ_AHEAD: Bytes = Bytes::mib(4);

fn advise(asked: &Asked<'_>) -> Result<Hints, Reason> {
    let make = asked.make(
        "btrfs",
        "mkfs.btrfs",
        "-d single -m dup",
        "it has stripes of its own and takes no others; the array stripes its data, and metadata kept twice mends what \
         the array cannot tell to be wrong",
    );
    let mut steps = vec![make, asked.mount("btrfs", "each would copy a path of its trees")];
    let mut notes = Vec::new();
    if let Some(wanted) = asked.geometry.map(|geometry| geometry.read_ahead()) {
        if wanted > OWN_READ_AHEAD {
            let uuid = format!("$(blkid -o value -s UUID {})", quote(asked.device));
            let own = format!("/sys/fs/btrfs/{uuid}/bdi/read_ahead_kb");
            let command = format!("echo {} > {own}", wanted.0 >> 10);
            steps.push(step(
                "read_ahead",
                "btrfs",
                command,
                "it reads ahead by itself, 4 MiB, whatever the device says",
            ));
        } else {
            notes.push(
                "btrfs: it reads ahead 4 MiB by itself; the device's read-ahead does nothing for it"
                    .to_string(),
            );
        }
    }
    Ok(Hints { steps, notes })
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

const OFFSET: u64 = 64 << 10;
const LENGTH: usize = 4096;

const COMPAT_RO: &[(u64, &str)] =
    &[(0x1, "free_space_tree"), (0x2, "free_space_tree_valid"), (0x4, "verity"), (0x8, "block_group_tree")];
const INCOMPAT: &[(u64, &str)] = &[
    (0x1, "mixed_backref"),
    (0x2, "default_subvol"),
    (0x4, "mixed_groups"),
    (0x8, "compress_lzo"),
    (0x10, "compress_zstd"),
    (0x20, "big_metadata"),
    (0x40, "extended_iref"),
    (0x80, "raid56"),
    (0x100, "skinny_metadata"),
    (0x200, "no_holes"),
    (0x400, "metadata_uuid"),
    (0x800, "raid1c34"),
    (0x1000, "zoned"),
    (0x2000, "extent_tree_v2"),
    (0x4000, "raid_stripe_tree"),
    (0x10000, "simple_quota"),
];

/// Reads the superblock, and from the chunk tree the profiles of data and metadata. Layout: Linux
/// `include/uapi/linux/btrfs_tree.h`, `struct btrfs_super_block`.
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "btrfs superblock")?;
    if block.slice(64, 8) != b"_BHRfS_M" {
        return Err(Reason::new("no btrfs superblock here (its magic number is missing)"));
    }
    let sector = block_size(u64::from(block.le32(144)), "btrfs superblock")?;
    let node = block_size(u64::from(block.le32(148)), "btrfs superblock")?;
    let checksum = match block.le16(196) {
        0 => "crc32c".to_string(),
        1 => "xxhash64".to_string(),
        2 => "sha256".to_string(),
        3 => "blake2b".to_string(),
        other => format!("unknown ({other})"),
    };
    let mut features = names("compat", block.le64(172), &[]);
    features.extend(names("compat_ro", block.le64(180), COMPAT_RO));
    features.extend(names("incompat", block.le64(188), INCOMPAT));
    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(block.le64(112))),
        ("sector_size".to_string(), json!(sector)),
        ("node_size".to_string(), json!(node)),
        ("devices".to_string(), json!(block.le64(136))),
        ("checksum".to_string(), json!(checksum)),
        ("features".to_string(), json!(features)),
        ("label".to_string(), json!(block.text(299, 256))),
    ]);
    for (group, profile) in profiles(medium, &block, node)? {
        facts.insert(group.to_string(), json!(profile));
    }
    Ok(Superblock { uuid: block.uuid(32), facts })
}

/// Reads the upkeep: what is written least is a sector, for a copy of the superblock.
fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let smallest_write = facts.get("sector_size").and_then(Value::as_u64).map(Bytes);
    Ok(Upkeep { smallest_write, ..Upkeep::default() })
}

const KEY: usize = 17;
const CHUNK: usize = 48;
const STRIPE: usize = 32;
const CHUNK_ITEM: u8 = 228;
const NODE_HEADER: usize = 101;

/// A range of logical addresses and where it is on this device.
struct Mapping {
    logical: u64,
    length: u64,
    physical: u64,
}

/// Profiles by block group (`data`, `metadata`, `system`), as the chunk tree has them. Several
/// profiles of one group, left by a conversion, are joined by `+`.
fn profiles(
    medium: &mut dyn Medium,
    superblock: &Block,
    node_size: u64,
) -> Result<BTreeMap<&'static str, String>, Reason> {
    let mut found: BTreeMap<&'static str, BTreeSet<&'static str>> = BTreeMap::new();
    let mappings = system_chunks(superblock);
    let mut level = superblock.byte(199);
    let mut addresses = vec![superblock.le64(88)];
    while !addresses.is_empty() {
        let mut below = Vec::new();
        for address in addresses {
            let Some(place) = mappings
                .iter()
                .find(|map| address.checked_sub(map.logical).is_some_and(|offset| offset < map.length))
            else {
                return Err(Reason::new("the chunk tree lies outside the system chunks; btrfs is damaged"));
            };
            let at = place.physical.saturating_add(address - place.logical);
            let node = Block::read(medium, at, node_size as usize, "btrfs chunk tree")?;
            if node.byte(100) != level {
                return Err(Reason::new("a node of the chunk tree is on the wrong level; btrfs is damaged"));
            }
            let items = (node.le32(96) as usize).min(node_size as usize / 25);
            for item in 0..items {
                if level == 0 {
                    let entry = NODE_HEADER + item * (KEY + 8);
                    if node.byte(entry + 8) == CHUNK_ITEM {
                        note(&mut found, node.le64(NODE_HEADER + node.le32(entry + KEY) as usize + 24));
                    }
                } else {
                    below.push(node.le64(NODE_HEADER + item * (KEY + 16) + KEY));
                }
            }
        }
        // The tree of a test device has one or two levels; more nodes than this is damage.
        if below.len() > 4096 {
            return Err(Reason::new("the chunk tree is implausibly large; btrfs is damaged"));
        }
        addresses = below;
        level = level.wrapping_sub(1);
    }
    let join = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join("+");
    Ok(found.into_iter().map(|(group, set)| (group, join(set))).collect())
}

/// Block groups and profile in the type of a chunk.
fn note(found: &mut BTreeMap<&'static str, BTreeSet<&'static str>>, kind: u64) {
    const PROFILES: [(u64, &str); 8] = [
        (0x8, "raid0"),
        (0x10, "raid1"),
        (0x20, "dup"),
        (0x40, "raid10"),
        (0x80, "raid5"),
        (0x100, "raid6"),
        (0x200, "raid1c3"),
        (0x400, "raid1c4"),
    ];
    let profile = PROFILES.iter().find(|(bit, _)| kind & bit != 0).map_or("single", |(_, name)| name);
    for (bit, group) in [(0x1, "data"), (0x2, "system"), (0x4, "metadata")] {
        if kind & bit != 0 {
            found.entry(group).or_default().insert(profile);
        }
    }
}

/// The mappings that the superblock itself carries, by which the chunk tree is found.
fn system_chunks(superblock: &Block) -> Vec<Mapping> {
    const START: usize = 811;
    let end = START + (superblock.le32(160) as usize).min(2048);
    let mut mappings = Vec::new();
    let mut at = START;
    while at + KEY + CHUNK <= end {
        let chunk = at + KEY;
        let stripes = usize::from(superblock.le16(chunk + 44));
        mappings.push(Mapping {
            logical: superblock.le64(at + 9),
            length: superblock.le64(chunk),
            physical: superblock.le64(chunk + CHUNK + 8),
        });
        at = chunk + CHUNK + stripes * STRIPE;
    }
    mappings
}
