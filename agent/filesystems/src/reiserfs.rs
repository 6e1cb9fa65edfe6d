//! ReiserFS (version 3).

use std::collections::BTreeMap;

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::record::Upkeep;
use fsdyno_spec::units::Bytes;
use serde_json::{Value, json};

use crate::argv::Argv;
use crate::barriers::{BarrierOff, Off};
use crate::extra::MkfsFlag;
use crate::filesystem::{Disk, Elsewhere, FileSystem, Identity, Program};
use crate::here::Here;
use crate::medium::{Block, Medium, Superblock, block_size};
use crate::options::{EXTRA_MOUNT, Kind, NOATIME, OptionRow, Options, extra_mkfs};
use crate::plan::DEVICE;
use crate::rule::{Choice, Rule};
use crate::verdict::{ToolVerdict, grown, made_or_not};

pub(crate) static REISERFS: FileSystem = FileSystem {
    name: "reiserfs",
    summary: "one balanced tree of everything, with small files and tails in its leaves",
    fstype: "reiserfs",
    disk: Some(Disk {
        // 8212 blocks: the journal of 8193 and what is around it. mkfs.reiserfs refuses less.
        minimum_size: Bytes(8212 * 4096),
        mkfs: Program {
            name: "mkfs.reiserfs",
            package: "reiserfsprogs",
            version: &["-V"],
            exit: made_or_not,
        },
        lists: &[],
        mkfs_arguments: arguments,
        check: Ok((
            Program { name: "reiserfsck", package: "reiserfsprogs", version: &["-V"], exit: checked },
            &["--check", "-y"],
        )),
        check_by_hand: &["--check"],
        identity: Identity::Uuid,
        geometry: None,
        grow: Ok((
            Program { name: "resize_reiserfs", package: "reiserfsprogs", version: &["-v"], exit: grown },
            &["-f", DEVICE],
        )),
        superblock,
        is_it: |_| true,
        upkeep,
        elsewhere: &[Elsewhere { what: "its journal", fact: "external_journal", shown: Some("jdev") }],
        discard_off: None,
    }),
    barrier_off: Some(BarrierOff::MountOption(&[Off { shown: "barrier=none", back: Some("barrier=flush") }])),
    flushes: true,
    counts_inodes: true,
    notes: &[
        "ReiserFS was removed in Linux 6.13.",
        "reiserfsck --check replays the journal first, and writes the time of the check into the superblock.",
    ],
    options: &[
        OptionRow {
            name: "block_size",
            kind: Kind::SizeOf(&[1024, 2048, 4096]),
            rule: Rule::MkfsWord("-b"),
            help: "Size of a block (mkfs.reiserfs -b). Left out: 4096.",
        },
        OptionRow {
            name: "journal_blocks",
            kind: Kind::Number(513, 32749),
            rule: Rule::MkfsWord("-s"),
            help: "Blocks of the journal, its header included (mkfs.reiserfs -s). Left out: 8193.",
        },
        OptionRow {
            name: "transaction_blocks",
            kind: Kind::Number(256, 1024),
            rule: Rule::MkfsWord("-t"),
            help: "Blocks that a transaction may have (mkfs.reiserfs -t). Left out: 1024, less for a small journal.",
        },
        OptionRow {
            name: "hash",
            kind: Kind::Word(&["r5", "rupasov", "tea"]),
            rule: Rule::MkfsWord("-h"),
            help: "Function that sorts the names of a directory (mkfs.reiserfs -h). Left out: r5.",
        },
        extra_mkfs(FLAGS),
        NOATIME,
        OptionRow {
            name: "barrier",
            kind: Kind::Flag(true),
            rule: Rule::MountSwitch { param: ("barrier", Some("none")), shown: &["barrier=none"] },
            help: "Flush the device's cache where order matters (mount -o barrier=none if false). false is fast \
                   and loses data when the power goes.",
        },
        OptionRow {
            name: "data",
            kind: Kind::Word(&["journal", "ordered", "writeback"]),
            rule: Rule::MountValue { key: "data", silent: Some("ordered") },
            help: "What the journal guarantees for file content (mount -o data=). Left out: ordered.",
        },
        OptionRow {
            name: "commit",
            kind: Kind::Seconds(1, 3600),
            rule: Rule::MountValue { key: "commit", silent: Some("30") },
            help: "Seconds between commits of the journal (mount -o commit=). Left out: 30.",
        },
        OptionRow {
            name: "tail",
            kind: Kind::Word(&["on", "small", "notail"]),
            rule: Rule::MountChoice(&[
                Choice { value: "on", param: ("tails", Some("on")), shown: Some("tails=on") },
                Choice { value: "small", param: ("tails", Some("small")), shown: None },
                Choice { value: "notail", param: ("notail", None), shown: Some("notail") },
            ]),
            help: "Which ends of files are packed into the tree: on, all; small, those of small files (the \
                   kernel's default); notail, none (mount -o tails=, notail).",
        },
        EXTRA_MOUNT,
    ],
    refuse: |_| Ok(()),
    unsupported,
    adjust_mount: |_, _, _| {},
    modules: &["reiserfs"],
    driver: |_, _| None,
    driver_hint: |config| config.has("CONFIG_REISERFS_FS").then(|| "reiserfs".to_string()),
    advise: None,
};

/// Left out: other devices and files (-j, -o, -B), force (-f), another UUID (-u).
const FLAGS: &[MkfsFlag] =
    &[MkfsFlag::alone("-d"), MkfsFlag::with_value("--format"), MkfsFlag::with_value("-l")];

/// `-q`: no question and no progress. `-f` once takes what is no block device or a whole disk; twice it
/// asks nothing.
fn arguments(argv: &mut Argv, _options: &Options, uuid: &str, force: bool) {
    argv.word("-q");
    if force {
        argv.word("-f");
        argv.word("-f");
    }
    argv.word("-u");
    argv.word(uuid);
}

fn unsupported(_: &Options, here: &Here) -> Option<Reason> {
    (here.kernel() >= (6, 13)).then(|| {
        Reason::new(format!("reiserfs was removed in Linux 6.13; this is {}", here.release))
            .advise("run it in a guest with an older kernel, or leave it out")
    })
}

/// Exit codes of reiserfsck, from reiserfsck(8).
fn checked(code: i32) -> ToolVerdict {
    match code {
        0 => ToolVerdict::good("no errors"),
        1 => ToolVerdict::bad("errors were corrected, although a check must not change anything"),
        2 => ToolVerdict::bad("a reboot is needed"),
        4 => ToolVerdict::bad("fatal errors found and left as they are: the tree must be rebuilt"),
        6 => ToolVerdict::bad("errors found and left as they are; they can be fixed"),
        8 => ToolVerdict::bad("the checker could not work; its messages say why"),
        16 => ToolVerdict::bad("wrong arguments"),
        _ => ToolVerdict::unknown(),
    }
}

const OFFSET: u64 = 64 << 10;
const LENGTH: usize = 204;

/// Reads the superblock. Layout: Linux 6.12 `fs/reiserfs/reiserfs.h`, `struct reiserfs_super_block`.
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "ReiserFS superblock")?;
    let magic = block.text(52, 10);
    let layout = match magic.as_str() {
        "ReIsErFs" => "3.5",
        "ReIsEr2Fs" => "3.6",
        "ReIsEr3Fs" => "3.6 with a journal of its own place",
        _ => return Err(Reason::new("no ReiserFS superblock here (its magic number is missing)")),
    };
    let size = block_size(u64::from(block.le16(44)), "ReiserFS superblock")?;
    let blocks = u64::from(block.le32(0));
    let hash = match block.le32(64) {
        0 => "unset".to_string(),
        1 => "tea".to_string(),
        2 => "rupasov".to_string(),
        3 => "r5".to_string(),
        other => format!("hash:{other}"),
    };
    // On the medium without the header's block, which mkfs.reiserfs counts.
    let journal = u64::from(block.le32(20)) + 1;
    let mut facts = BTreeMap::from([
        ("size".to_string(), json!(blocks * size)),
        ("block_size".to_string(), json!(size)),
        ("blocks".to_string(), json!(blocks)),
        ("journal_blocks".to_string(), json!(journal)),
        ("journal_size".to_string(), json!(journal * size)),
        ("transaction_blocks".to_string(), json!(block.le32(24))),
        ("hash".to_string(), json!(hash)),
        ("version".to_string(), json!(layout)),
        ("features".to_string(), json!([format!("format_{}", block.le16(72))])),
        ("label".to_string(), json!(block.text(100, 16))),
    ]);
    // The journal's first block and the number of its own device (`jp_journal_1st_block`, `jp_journal_dev`):
    // on this one it is behind the superblock.
    if block.le32(12) == 0 || block.le32(16) != 0 {
        facts.insert("external_journal".to_string(), json!(true));
    }
    Ok(Superblock { uuid: block.uuid(84), facts })
}

/// Reads the upkeep, the fields of checks (since Linux 2.6.25) from the superblock itself.
fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let number = |name: &str| facts.get(name).and_then(Value::as_u64).map(Bytes);
    let block = Block::read(medium, OFFSET, LENGTH, "ReiserFS superblock")?;
    let set = |value: u64, never: u64| Some(value).filter(|value| *value != 0 && *value != never);
    let checked = set(block.le32(120).into(), u32::MAX.into());
    Ok(Upkeep {
        journal: number("journal_size"),
        smallest_write: number("block_size"),
        mounts: checked.map(|_| block.le16(116).into()),
        most_mounts: set(block.le16(118).into(), u16::MAX.into()),
        checked,
        check_interval: set(block.le32(124).into(), u32::MAX.into()),
        ..Upkeep::default()
    })
}
