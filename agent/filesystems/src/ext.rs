//! What ext2, ext3 and ext4 share: one family on the medium, one pair of tools, and on most kernels
//! one driver.

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::advise::{Asked, Hints};
use crate::argv::Argv;
use crate::barriers::Off;
use crate::extra::MkfsFlag;
use crate::filesystem::{Elsewhere, Facts, GeometryRule, Mismatch, Program};
use crate::geometry::Geometry;
use crate::here::{Change, Here, KernelConfig};
use crate::medium::{Block, Medium, Superblock, block_size, names};
use crate::options::{Feature, Kind, OptionRow, Options, Rule, extra_mkfs, geometry_alone};
use crate::plan::quote;
use crate::verdict::{ToolVerdict, grown, made};

pub(crate) const RESIZE2FS: Program =
    Program { name: "resize2fs", package: "e2fsprogs", version: &[], exit: grown };

pub(crate) const MKE2FS: Program =
    Program { name: "mke2fs", package: "e2fsprogs", version: &["-V"], exit: made };

pub(crate) const E2FSCK: Program =
    Program { name: "e2fsck", package: "e2fsprogs", version: &["-V"], exit: checked };

/// `-f` even if marked clean, `-n` changes nothing, `-tt` times each pass. Without a terminal e2fsck
/// refuses to run unless it is told what to answer, which `-n` does.
pub(crate) const CHECK: &[&str] = &["-f", "-n", "-tt"];

/// mke2fs keeps only the last `-E` and the last `-O`; `-J` may as well be one.
pub(crate) const LISTS: &[&str] = &["-E", "-J", "-O"];

pub(crate) const NOTE_DRIVER: &str =
    "Many kernels serve ext2 and ext3 by the ext4 driver; the driver is recorded.";
pub(crate) const NOTE_LAZY: &str = "Made without lazy initialisation (-E lazy_itable_init=0,lazy_journal_init=0): \
    nothing of mkfs is left to be done in the background of later phases.";
pub(crate) const NOTE_JOURNAL: &str = "e2fsck -n does not replay a journal: after a crash mount first, or read its answer as one about stale data.";

/// Arguments of mke2fs that every file system of the family gets.
pub(crate) fn arguments(argv: &mut Argv, kind: &str, options: &Options, uuid: &str, force: bool) {
    if force {
        argv.word("-F");
    }
    for word in ["-t", kind, "-U", uuid] {
        argv.word(word);
    }
    argv.member("-E", "lazy_itable_init=0");
    argv.member("-E", "lazy_journal_init=0");
    if let Some(bytes) = options.number("journal_size") {
        argv.member("-J", format!("size={}", bytes >> 20));
    }
    argv.member("-E", if options.flag("discard") == Some(true) { "discard" } else { "nodiscard" });
}

/// Left out: files (-d, -l, -M, -z), force (-F), another type or UUID (-t, -U), making nothing or half
/// (-n, -S, -V), a journal where there should be none (-j), and what is obsolete or runs badblocks (-c).
pub(crate) const EXTRA_MKFS: OptionRow = extra_mkfs(&[
    MkfsFlag::with_value("-b"),
    MkfsFlag::with_value("-C"),
    MkfsFlag::alone("-D"),
    MkfsFlag::with_value("-e"),
    MkfsFlag::with_value("-E"),
    MkfsFlag::with_value("-g"),
    MkfsFlag::with_value("-G"),
    MkfsFlag::with_value("-i"),
    MkfsFlag::with_value("-I"),
    MkfsFlag::with_value("-J"),
    MkfsFlag::with_value("-L"),
    MkfsFlag::with_value("-m"),
    MkfsFlag::with_value("-N"),
    MkfsFlag::with_value("-o"),
    MkfsFlag::with_value("-O"),
    MkfsFlag::alone("-q"),
    MkfsFlag::with_value("-T"),
    MkfsFlag::alone("-v"),
]);
pub(crate) const BYTES_PER_INODE: OptionRow = OptionRow {
    name: "bytes_per_inode",
    kind: Kind::Size(1 << 10, 64 << 20),
    rule: Rule::MkfsWord("-i"),
    help: "One inode for so many bytes of the device (mke2fs -i).",
};
pub(crate) const INODE_SIZE: OptionRow = OptionRow {
    name: "inode_size",
    kind: Kind::SizeOf(&[128, 256, 512, 1024, 2048, 4096]),
    rule: Rule::MkfsWord("-I"),
    help: "Size of an inode (mke2fs -I).",
};
pub(crate) const BLOCK_SIZE: OptionRow = OptionRow {
    name: "block_size",
    kind: Kind::SizeOf(&[1024, 2048, 4096]),
    rule: Rule::MkfsWord("-b"),
    help: "Size of a block (mke2fs -b). Left out, mke2fs takes 1 KiB on devices below 512 MiB, else 4 KiB.",
};
pub(crate) const RESERVED_BLOCKS: OptionRow = OptionRow {
    name: "reserved_blocks",
    kind: Kind::Number(0, 50),
    rule: Rule::MkfsWord("-m"),
    help: "Share of the blocks that only root may use, percent (mke2fs -m).",
};
pub(crate) const STRIDE: OptionRow = OptionRow {
    name: "stride",
    kind: Kind::Number(0, 65535),
    rule: Rule::MkfsGroup("-E", "stride"),
    help: "Chunk of the array in file-system blocks (mke2fs -E stride=); 0: not aligned, whatever the device says.",
};
pub(crate) const STRIPE_WIDTH: OptionRow = OptionRow {
    name: "stripe_width",
    kind: Kind::Number(0, u32::MAX as u64),
    rule: Rule::MkfsGroup("-E", "stripe_width"),
    help: "Stripe of the array in file-system blocks: stride x data disks (mke2fs -E stripe_width=).",
};
pub(crate) const DISCARD: OptionRow = OptionRow {
    name: "discard",
    kind: Kind::Flag(false),
    rule: Rule::MkfsOwn,
    help: "mkfs discards the device first (mke2fs -E discard, else -E nodiscard).",
};
pub(crate) const JOURNAL: OptionRow = OptionRow {
    name: "journal",
    kind: Kind::Flag(true),
    rule: Rule::MkfsFeature("-O", "has_journal"),
    help: "With a journal or without (mke2fs -O has_journal, -O ^has_journal).",
};
pub(crate) const JOURNAL_SIZE: OptionRow = OptionRow {
    name: "journal_size",
    kind: Kind::Size(1 << 20, 40_000 << 20),
    rule: Rule::MkfsOwn,
    help: "Size of the journal, whole MiB (mke2fs -J size=). Left out, it follows the size of the device.",
};
pub(crate) const FEATURES: OptionRow = OptionRow {
    name: "features",
    kind: Kind::Strings,
    rule: Rule::MkfsFeatures(FEATURE_NAMES),
    help: "Features to turn on, or off with ^ before them, beside those of the type (mke2fs -O). Each is read \
           back from the superblock.",
};
const FEATURE_NAMES: &[Feature] = &[
    feature("dir_index"),
    feature("extent"),
    feature("flex_bg"),
    feature("64bit"),
    feature("metadata_csum"),
    feature("metadata_csum_seed"),
    feature("uninit_bg"),
    feature("huge_file"),
    feature("large_file"),
    feature("dir_nlink"),
    feature("extra_isize"),
    feature("ext_attr"),
    feature("filetype"),
    feature("resize_inode"),
    feature("sparse_super"),
    feature("sparse_super2"),
    feature("meta_bg"),
    feature("bigalloc"),
    feature("inline_data"),
    feature("large_dir"),
    feature("ea_inode"),
    feature("quota"),
    feature("project"),
    feature("casefold"),
    feature("encrypt"),
    feature("verity"),
    feature("stable_inodes"),
    feature("fast_commit"),
    feature("orphan_file"),
    feature("mmp"),
];

const fn feature(name: &'static str) -> Feature {
    Feature { name, fact: name, flag: "-O" }
}

pub(crate) const DATA: OptionRow = OptionRow {
    name: "data",
    kind: Kind::Word(&["journal", "ordered", "writeback"]),
    rule: Rule::MountValue { key: "data", silent: Some("ordered") },
    help: "What the journal promises about file data (mount -o data=). journal also turns delayed allocation \
           and direct I/O off.",
};
pub(crate) const COMMIT: OptionRow = OptionRow {
    name: "commit",
    kind: Kind::Seconds(1, 3600),
    rule: Rule::MountValue { key: "commit", silent: Some("5") },
    help: "Longest time between commits of the journal (mount -o commit=).",
};
/// What mountinfo shows where barriers are off.
const NO_BARRIER: &[&str] = &["nobarrier", "barrier=0"];
/// The same, each with what turns them on again.
pub(crate) const BARRIERS_OFF: &[Off] =
    &[Off { shown: NO_BARRIER[0], back: "barrier=1" }, Off { shown: NO_BARRIER[1], back: "barrier=1" }];

pub(crate) const BARRIER: OptionRow = OptionRow {
    name: "barrier",
    kind: Kind::Flag(true),
    rule: Rule::MountSwitch { param: ("barrier", Some("0")), shown: NO_BARRIER },
    help: "Flush the device's cache where order matters (mount -o barrier=0 if false). false is fast and \
           loses data when the power goes.",
};

pub(crate) const STRIPE: OptionRow = OptionRow {
    name: "stripe",
    kind: Kind::Number(0, 1 << 21),
    rule: Rule::MountValue { key: "stripe", silent: Some("0") },
    help: "Stripe of the array in file-system blocks for this mount (mount -o stripe=), over what the superblock \
           says. Only the ext4 driver takes it, for whichever type it serves.",
};
pub(crate) const DELALLOC: OptionRow = OptionRow {
    name: "delalloc",
    kind: Kind::Flag(true),
    rule: Rule::MountSwitch { param: ("nodelalloc", None), shown: &["nodelalloc"] },
    help: "Blocks are chosen when data is written back, not when write() is called (mount -o nodelalloc if \
           false).",
};

pub(crate) const CHECK_READAHEAD: OptionRow = OptionRow {
    name: "check_readahead",
    kind: Kind::Size(0, 64 << 30),
    rule: Rule::CheckValue { flag: "-E", key: "readahead_kb=", unit: 1 << 10 },
    help: "Metadata that the check reads ahead, whole KiB (e2fsck -E readahead_kb=); 0: none. Left out: the inode \
           tables of two block groups, none where that is above 1/50 of the memory.",
};

/// Geometry by `-E stride=,stripe_width=`; zeros beat what mke2fs detects.
pub(crate) const GEOMETRY_RULE: GeometryRule = GeometryRule {
    mkfs: geometry_arguments,
    facts: geometry_facts,
    tell,
    shown: &[("stripe", "stripe_width")],
    ignored_by: None,
    mend,
};

fn geometry_arguments(
    argv: &mut Argv,
    options: &Options,
    size: Bytes,
    geometry: Option<&Geometry>,
) -> Result<(), Reason> {
    let block = options.number("block_size").unwrap_or(usual_block_size(size));
    for (name, value) in geometry_facts(geometry, block)? {
        argv.member("-E", format!("{name}={value}"));
    }
    Ok(())
}

/// What mke2fs.conf of e2fsprogs gives: the type `small` below 512 MiB. Where another configuration
/// differs, the superblock shows it.
fn usual_block_size(size: Bytes) -> u64 {
    if size < Bytes::mib(512) { 1024 } else { 4096 }
}

fn geometry_facts(geometry: Option<&Geometry>, block_size: u64) -> Result<Facts, Reason> {
    let Some(geometry) = geometry else { return Ok(vec![("stride", 0), ("stripe_width", 0)]) };
    let stride = geometry.stride(block_size)?;
    if stride > u64::from(u16::MAX) {
        return Err(Reason::new(format!(
            "a chunk of {} is {stride} blocks of {block_size} bytes: the superblock has room for 65535",
            geometry.chunk
        ))
        .advise("make the chunk smaller, or `block_size` larger"));
    }
    Ok(vec![("stride", stride), ("stripe_width", geometry.stripe_width(block_size)?)])
}

/// Linux takes `remount,stripe=` since 2.6.30, in file-system blocks.
fn tell(geometry: &Geometry, block_size: u64) -> Result<Vec<(String, Option<String>)>, Reason> {
    Ok(vec![("stripe".to_string(), Some(geometry.stripe_width(block_size)?.to_string()))])
}

/// The superblock is told for later mounts, and this mount if the ext4 driver serves it.
fn mend(wrong: &Mismatch<'_>) -> String {
    let mut said: Vec<_> = wrong.expected.iter().map(|(name, number)| format!("{name}={number}")).collect();
    said.sort();
    let told = format!("tune2fs -E {} {}", said.join(","), quote(wrong.device));
    let width = wrong.expected.iter().find(|(name, _)| *name == "stripe_width");
    match (wrong.point, width) {
        (Some(point), Some((_, width))) if wrong.driver == Some("ext4") => {
            format!("{told} && mount -o remount,stripe={width} {}", quote(point))
        }
        _ => told,
    }
}

/// Advice for ext4. The stride counts blocks, so the block's size is stated with it: mke2fs takes 1 KiB below
/// 512 MiB.
pub(crate) fn advise(asked: &Asked<'_>) -> Result<Hints, Reason> {
    let block = asked.block_size;
    let Some(geometry) = asked.geometry else {
        let words = if block == 4096 { String::new() } else { format!("-b {block}") };
        let make =
            asked.make("ext4", "mkfs.ext4", &words, "nothing is striped, so there is nothing to tell it");
        let mount = asked.mount("ext4", "nothing else helps here");
        return Ok(Hints { steps: vec![make, mount], notes: Vec::new() });
    };
    let told: Vec<_> = geometry_facts(Some(geometry), block)?
        .into_iter()
        .map(|(name, number)| format!("{name}={number}"))
        .collect();
    let make = asked.make(
        "ext4",
        "mkfs.ext4",
        &format!("-b {block} -E {}", told.join(",")),
        "it allocates in whole stripes and spreads its bitmaps over the members",
    );
    let mount =
        asked.mount("ext4", "the stripe is in the superblock (stripe= is for arrays that grew since)");
    let mut notes = vec![
        "ext4: mke2fs 1.47.3 and newer sets stripe_width by itself only on rotational devices, so it is stated"
            .to_string(),
    ];
    if block > 4096 {
        notes.push(format!(
            "ext4: blocks of {} are mounted only by kernels whose pages are as large, and by newer ones",
            Bytes(block)
        ));
    }
    Ok(Hints { steps: vec![make, mount], notes })
}

/// What came to ext4 after the oldest kernels that fsdyno runs on.
const CAME: &[Change] = &[
    ("casefold", (5, 2), "leave it out, or take a newer kernel in a guest"),
    ("verity", (5, 4), "leave it out, or take a newer kernel in a guest"),
    ("stable_inodes", (5, 5), "leave it out, or take a newer kernel in a guest"),
    ("fast_commit", (5, 10), "leave it out, or take a newer kernel in a guest"),
    ("orphan_file", (5, 15), "leave it out, or take a newer kernel in a guest"),
];

/// What the kernel cannot do of what is asked for.
pub(crate) fn unsupported(options: &Options, here: &Here) -> Option<Reason> {
    here.too_old("ext4", options, CAME)
}

/// Combinations that mke2fs or the kernel would refuse, or silently change.
pub(crate) fn refuse(options: &Options) -> Result<(), Reason> {
    if options.flag("journal") == Some(false) {
        for name in ["data", "commit", "journal_size"] {
            if options.get(name).is_some() {
                return Err(Reason::new(format!("`{name}` is about the journal, and journal = false"))
                    .advise(format!("leave `{name}` out, or have a journal")));
            }
        }
    }
    if let Some(bytes) = options.number("journal_size").filter(|bytes| bytes % (1 << 20) != 0) {
        return Err(Reason::new(format!("journal_size = {bytes} is no whole number of MiB"))
            .advise("mke2fs takes whole MiB"));
    }
    if options.flag("delalloc") == Some(true) && options.word("data") == Some("journal") {
        return Err(Reason::new("data = \"journal\" turns delayed allocation off")
            .advise("leave `delalloc` out, or take another `data`"));
    }
    geometry_alone(options, &["stride", "stripe_width"])?;
    if let (Some(inode), Some(block)) = (options.number("inode_size"), options.number("block_size"))
        && inode > block
    {
        return Err(Reason::new(format!("an inode of {inode} bytes does not fit a block of {block} bytes"))
            .advise("make inode_size at most block_size"));
    }
    if let (Some(stride), Some(width)) = (options.number("stride"), options.number("stripe_width")) {
        let whole = if stride == 0 { width == 0 } else { width % stride == 0 };
        if !whole {
            return Err(Reason::new(format!("stripe_width = {width} is no multiple of stride = {stride}"))
                .advise("stripe_width is stride x data disks"));
        }
    }
    Ok(())
}

/// Exit codes of e2fsck, from e2fsck(8): a sum of bits; the worst one speaks.
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("no errors"),
        c if !(0..256).contains(&c) => ToolVerdict::unknown(),
        c if c & 128 != 0 => ToolVerdict::bad("a shared library is missing"),
        c if c & 32 != 0 => ToolVerdict::bad("cancelled"),
        c if c & 16 != 0 => ToolVerdict::bad("wrong usage"),
        c if c & 8 != 0 => ToolVerdict::bad("could not do its work (device busy or unreadable)"),
        c if c & 4 != 0 => ToolVerdict::bad("errors found and left as they are"),
        c if c & 3 != 0 => {
            ToolVerdict::bad("errors were corrected, although a check must not change anything")
        }
        _ => ToolVerdict::unknown(),
    }
}

/// ext4 lists every device that it serves, under whatever name; ext2's own driver lists none.
pub(crate) fn driver(sys_fs: &Path, kernel_device: &str) -> Option<String> {
    sys_fs.join("ext4").join(kernel_device).exists().then(|| "ext4".to_string())
}

/// ext3 and ext4 have one driver since Linux 4.3.
pub(crate) fn driver_hint(config: &KernelConfig) -> Option<String> {
    config.has("CONFIG_EXT4_FS").then(|| "ext4".to_string())
}

/// No mount shows it.
pub(crate) const ELSEWHERE: &[Elsewhere] =
    &[Elsewhere { what: "its journal", fact: "external_journal", shown: None }];

/// Where the superblock is, and how long.
const OFFSET: u64 = 1024;
const LENGTH: usize = 1024;

const COMPAT: &[(u64, &str)] = &[
    (0x1, "dir_prealloc"),
    (0x2, "imagic_inodes"),
    (0x4, "has_journal"),
    (0x8, "ext_attr"),
    (0x10, "resize_inode"),
    (0x20, "dir_index"),
    (0x200, "sparse_super2"),
    (0x400, "fast_commit"),
    (0x800, "stable_inodes"),
    (0x1000, "orphan_file"),
];
const INCOMPAT: &[(u64, &str)] = &[
    (0x1, "compression"),
    (0x2, "filetype"),
    (0x4, "needs_recovery"),
    (0x8, "journal_dev"),
    (0x10, "meta_bg"),
    (0x40, "extent"),
    (0x80, "64bit"),
    (0x100, "mmp"),
    (0x200, "flex_bg"),
    (0x400, "ea_inode"),
    (0x1000, "dirdata"),
    (0x2000, "metadata_csum_seed"),
    (0x4000, "large_dir"),
    (0x8000, "inline_data"),
    (0x10000, "encrypt"),
    (0x20000, "casefold"),
];
const RO_COMPAT: &[(u64, &str)] = &[
    (0x1, "sparse_super"),
    (0x2, "large_file"),
    (0x8, "huge_file"),
    (0x10, "uninit_bg"),
    (0x20, "dir_nlink"),
    (0x40, "extra_isize"),
    (0x100, "quota"),
    (0x200, "bigalloc"),
    (0x400, "metadata_csum"),
    (0x800, "replica"),
    (0x1000, "read-only"),
    (0x2000, "project"),
    (0x4000, "shared_blocks"),
    (0x8000, "verity"),
    (0x10000, "orphan_present"),
];

/// Reads the superblock. Layout: Linux `fs/ext4/ext4.h`, `struct ext4_super_block`.
pub(crate) fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "ext superblock")?;
    if block.le16(0x38) != 0xEF53 {
        return Err(Reason::new("no ext2, ext3 or ext4 superblock here (its magic number is missing)"));
    }
    let exponent = block.le32(0x18);
    let size = block_size(1024u64.checked_shl(exponent).unwrap_or(0), "ext superblock")?;
    let compat = u64::from(block.le32(0x5C));
    let incompat = u64::from(block.le32(0x60));
    let wide = |low: usize, high: usize| {
        let high = if incompat & 0x80 == 0 { 0 } else { block.le32(high) };
        u64::from(high) << 32 | u64::from(block.le32(low))
    };
    let blocks = wide(0x4, 0x150);
    let reserved = wide(0x8, 0x154);
    let journal = compat & 0x4 != 0;
    let mut features = names("compat", compat, COMPAT);
    features.extend(names("incompat", incompat, INCOMPAT));
    features.extend(names("ro_compat", u64::from(block.le32(0x64)), RO_COMPAT));
    let percent = (u128::from(reserved) * 100 + u128::from(blocks / 2)) / u128::from(blocks.max(1));

    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(blocks.saturating_mul(size))),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        // In the option's own unit; mke2fs rounds the count down, so the nearest percent is what was asked.
        ("reserved_blocks".to_string(), json!(u64::try_from(percent).unwrap_or(u64::MAX))),
        ("reserved_blocks_count".to_string(), json!(reserved)),
        ("inodes".to_string(), json!(block.le32(0))),
        ("inode_size".to_string(), json!(if block.le32(0x4C) == 0 { 128 } else { block.le16(0x58) })),
        ("blocks_per_group".to_string(), json!(block.le32(0x20))),
        ("inodes_per_group".to_string(), json!(block.le32(0x28))),
        ("stride".to_string(), json!(block.le16(0x164))),
        ("stripe_width".to_string(), json!(block.le32(0x170))),
        ("journal".to_string(), json!(journal)),
        ("features".to_string(), json!(features)),
        ("clean".to_string(), json!(block.le16(0x3A) & 1 == 1 && incompat & 0x4 == 0)),
        ("label".to_string(), json!(block.text(0x78, 16))),
    ]);
    if journal {
        let inode = block.le32(0xE0);
        facts.insert("journal_inode".to_string(), json!(inode));
        if inode == 0 {
            facts.insert("external_journal".to_string(), json!(true));
        }
        // The superblock keeps a copy of the journal inode: type 1 is its block map and size.
        if block.byte(0xFD) == 1 {
            let bytes = u64::from(block.le32(0x10C + 15 * 4)) << 32 | u64::from(block.le32(0x10C + 16 * 4));
            facts.insert("journal_size".to_string(), json!(bytes));
        }
    }
    Ok(Superblock { uuid: block.uuid(0x68), facts })
}

/// Features that ext2's and ext3's drivers know, as in Linux 4.2, the last with both
/// (`EXT3_FEATURE_*_SUPP` in `fs/ext3/ext3.h`), and those that they need not know.
const OLD: &[&str] = &[
    "dir_prealloc",
    "imagic_inodes",
    "has_journal",
    "ext_attr",
    "resize_inode",
    "dir_index",
    "filetype",
    "needs_recovery",
    "meta_bg",
    "sparse_super",
    "large_file",
];

/// Which of the family it is: with any feature that the older ones cannot have it is ext4, else ext3 if it
/// has a journal.
pub(crate) fn kind(superblock: &Superblock) -> &'static str {
    let features = superblock.facts.get("features").and_then(Value::as_array);
    let newer = features
        .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|feature| !OLD.contains(&feature)));
    match superblock.facts.get("journal") {
        _ if newer => "ext4",
        Some(Value::Bool(true)) => "ext3",
        _ => "ext2",
    }
}

/// Reads the upkeep; fields as in [`superblock`]. The time of the last check has 40 bits.
pub(crate) fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let known = superblock(medium)?;
    let block = Block::read(medium, OFFSET, LENGTH, "ext superblock")?;
    let most = u64::from(block.le16(0x36));
    let checked = u64::from(block.byte(0x277)) << 32 | u64::from(block.le32(0x40));
    Ok(Upkeep {
        journal: known.facts.get("journal_size").and_then(Value::as_u64).map(Bytes),
        smallest_write: known.facts.get("block_size").and_then(Value::as_u64).map(Bytes),
        mounts: Some(u64::from(block.le16(0x34))),
        // A signed number; 0 and what is negative: never.
        most_mounts: (1..0x8000).contains(&most).then_some(most),
        checked: (checked > 0).then_some(checked),
        check_interval: Some(u64::from(block.le32(0x44))).filter(|seconds| *seconds > 0),
        errors: Some(u64::from(block.le32(0x194))),
        ..Upkeep::default()
    })
}
