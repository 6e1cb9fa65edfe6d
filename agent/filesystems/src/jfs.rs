//! JFS.

use std::collections::BTreeMap;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::argv::Argv;
use crate::extra::MkfsFlag;
use crate::filesystem::{DiscardOff, Disk, Elsewhere, FileSystem, Identity, Program};
use crate::medium::{Block, Medium, Superblock, block_size, names};
use crate::options::{EXTRA_MOUNT, Kind, NOATIME, OptionRow, Options, extra_mkfs};
use crate::rule::Rule;
use crate::verdict::{ToolVerdict, made_or_not};

pub(crate) static JFS: FileSystem = FileSystem {
    name: "jfs",
    summary: "B+ trees and extents with a journal of metadata, from AIX and OS/2",
    fstype: "jfs",
    disk: Some(Disk {
        // mkfs.jfs: "Partition must be at least 16 megabytes."
        minimum_size: Bytes::mib(16),
        mkfs: Program { name: "mkfs.jfs", package: "jfsutils", version: &["-V"], exit: made_or_not },
        lists: &[],
        mkfs_arguments: arguments,
        check: Ok((
            Program { name: "jfs_fsck", package: "jfsutils", version: &["-V"], exit: checked },
            &["-f", "-n"],
        )),
        check_by_hand: &["-f"],
        identity: Identity::Label(LABEL),
        geometry: None,
        grow: Err("a JFS grows by a remount of its own (`resize`), which fsdyno does not do"),
        superblock,
        is_it: |_| true,
        upkeep,
        elsewhere: &[Elsewhere { what: "its log", fact: "external_log", shown: None }],
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: None,
    flushes: false,
    counts_inodes: true,
    notes: &[
        "JFS never sends a flush to its device, not even for fsync: it is always without barriers. Do not rank \
         it against rows that have them.",
        "mkfs.jfs takes no UUID: a medium of ours is known by its label.",
        "jfs_fsck -n does not replay the journal, and writes one byte: which of its own two logs was the last.",
    ],
    options: &[
        OptionRow {
            name: "log_size",
            kind: Kind::Size(MIB, 128 * MIB),
            rule: Rule::MkfsOwn,
            help: "Size of the journal, in whole MiB (mkfs.jfs -s). Left out: 0.4 % of the device, 128 MiB at most.",
        },
        extra_mkfs(FLAGS),
        NOATIME,
        OptionRow {
            name: "integrity",
            kind: Kind::Flag(true),
            rule: Rule::MountSwitch { param: ("nointegrity", None), shown: &["nointegrity"] },
            help: "Write the journal (mount -o nointegrity if false). Without it a crash may cost everything.",
        },
        OptionRow {
            name: "online_discard",
            kind: Kind::Flag(false),
            // jfs_show_options: with the least number of blocks that are worth it, 64 unless given.
            rule: Rule::MountSwitch { param: ("discard", None), shown: &["discard=64"] },
            help: "The kernel discards blocks as they are freed, from 64 at once (mount -o discard).",
        },
        EXTRA_MOUNT,
    ],
    refuse,
    unsupported: |_, _| None,
    adjust_mount: |_, _, _| {},
    modules: &["jfs"],
    driver: |_, _| None,
    driver_hint: |config| config.has("CONFIG_JFS_FS").then(|| "jfs".to_string()),
    advise: None,
};

const MIB: u64 = 1 << 20;

/// Characters of a label.
const LABEL: usize = 16;

/// Left out: other devices (-j, -J), the label (-L), looking for bad blocks (-c), a size in blocks.
const FLAGS: &[MkfsFlag] = &[MkfsFlag::alone("-O")];

/// `-q`: no question. There is no flag that forces: mkfs.jfs looks for nothing but a mount.
fn arguments(argv: &mut Argv, options: &Options, label: &str, _force: bool) {
    argv.word("-q");
    if let Some(size) = options.number("log_size") {
        argv.word("-s");
        argv.word((size / MIB).to_string());
    }
    argv.word("-L");
    argv.word(label);
}

fn refuse(options: &Options) -> Result<(), Reason> {
    match options.number("log_size") {
        Some(size) if size % MIB != 0 => Err(Reason::new(format!(
            "jfs: log_size = {size} bytes are no whole MiB, which mkfs.jfs -s takes"
        ))
        .advise("give a multiple of 1048576")),
        _ => Ok(()),
    }
}

/// Exit codes of jfs_fsck, from jfs_fsck(8).
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("no errors"),
        1 => ToolVerdict::bad("errors were corrected, although a check must not change anything"),
        2 => ToolVerdict::bad("errors were corrected in a mounted file system: reboot"),
        4 => ToolVerdict::bad("errors found and left as they are"),
        8 => ToolVerdict::bad("the checker could not work; its messages say why"),
        16 => ToolVerdict::bad("wrong arguments"),
        128 => ToolVerdict::bad("a shared library is missing"),
        _ => ToolVerdict::unknown(),
    }
}

const OFFSET: u64 = 32 << 10;
const LENGTH: usize = 184;

/// Linux `fs/jfs/jfs_filsys.h`.
const FLAG_BITS: &[(u64, &str)] = &[
    (0x1, "unicode"),
    (0x2, "errors_remount_ro"),
    (0x4, "errors_continue"),
    (0x8, "errors_panic"),
    (0x10, "usrquota"),
    (0x20, "grpquota"),
    (0x40, "nointegrity"),
    (0x80, "discard"),
    (0x100, "group_commit"),
    (0x200, "lazy_commit"),
    (0x400, "temporary_fs"),
    (0x800, "inline_log"),
    (0x1000, "inline_moved"),
    (0x1_0000, "bad_sait"),
    (0x2_0000, "sparse"),
    (0x4_0000, "dasd"),
    (0x8_0000, "dasd_prime"),
    (0x10_0000, "swap_bytes"),
    (0x20_0000, "dir_index"),
    (0x1000_0000, "linux"),
    (0x2000_0000, "dfs"),
    (0x4000_0000, "os2"),
    (0x8000_0000, "aix"),
];

/// Reads the superblock. Layout: Linux `fs/jfs/jfs_superblock.h`, `struct jfs_superblock`, with
/// `pxd_t` from `jfs_types.h`: 24 bits of length, 40 bits of address.
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "JFS superblock")?;
    if block.slice(0, 4) != b"JFS1" {
        return Err(Reason::new("no JFS superblock here (its magic number is missing)"));
    }
    let size = block_size(u64::from(block.le32(16)), "JFS superblock")?;
    let extent = |at: usize| {
        let first = u64::from(block.le32(at));
        let (length, high) = (first & 0xFF_FFFF, first >> 24);
        (length, (high << 32) + u64::from(block.le32(at + 4)))
    };
    let ((workspace, workspace_at), (log, log_at)) = (extent(80), extent(72));
    // `s_size` counts 512-byte units of the aggregate; the checker's workspace and the log lie behind it.
    let blocks = (block.le64(8) / (size / 512)).max(workspace_at + workspace).max(log_at + log);
    let label = block.text(152, LABEL);
    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(blocks.saturating_mul(size))),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        ("sector_size".to_string(), json!(block.le32(24))),
        ("allocation_group_size".to_string(), json!(u64::from(block.le32(32)) * size)),
        ("log_size".to_string(), json!(log * size)),
        ("version".to_string(), json!(block.le32(4))),
        ("features".to_string(), json!(names("flag", u64::from(block.le32(36)), FLAG_BITS))),
        ("label".to_string(), json!(label)),
    ]);
    if log == 0 {
        facts.insert("external_log".to_string(), json!(true));
    }
    Ok(Superblock { uuid: label, facts })
}

/// Reads the upkeep: the journal within the device, if it is there; its pages and all metadata have 4 KiB.
fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let log = facts.get("log_size").and_then(Value::as_u64).filter(|size| *size > 0);
    Ok(Upkeep { journal: log.map(Bytes), smallest_write: Some(Bytes::kib(4)), ..Upkeep::default() })
}
