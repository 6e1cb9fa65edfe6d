//! What ext2, ext3 and ext4 share: one family on the medium, one pair of tools, and on most kernels
//! one driver.

mod audit;
mod superblock;

use std::path::Path;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::argv::Argv;
use crate::barriers::Off;
use crate::extra::MkfsFlag;
use crate::filesystem::{Elsewhere, Program};
use crate::geometry::Geometry;
use crate::geometry_rule::{Facts, GeometryRule};
use crate::here::{Change, Here, KernelConfig};
use crate::options::{Feature, Kind, OptionRow, Options, Rule, extra_mkfs, geometry_alone};
use crate::verdict::{ToolVerdict, grown, made};

pub(crate) use audit::{advise, upkeep};
pub(crate) use superblock::{kind, superblock};

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
pub(crate) const BARRIERS_OFF: &[Off] = &[
    Off { shown: NO_BARRIER[0], back: Some("barrier=1") },
    Off { shown: NO_BARRIER[1], back: Some("barrier=1") },
];

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
    least: None,
    facts: geometry_facts,
    tell: audit::tell,
    shown: &[("stripe", "stripe_width")],
    ignored_by: None,
    mend: audit::mend,
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
