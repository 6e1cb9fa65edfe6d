//! NILFS2.

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
use crate::plan::{CommandLine, DEVICE, EMPTY_FILE, MountPlan, POINT};
use crate::rule::Rule;
use crate::verdict::{grown, made};

pub(crate) static NILFS2: FileSystem = FileSystem {
    name: "nilfs2",
    summary: "one log of everything, with a checkpoint every few seconds and a cleaner behind it",
    fstype: "nilfs2",
    disk: Some(Disk {
        // 16 segments of 8 MiB, and a block: mkfs.nilfs2 names it when it refuses.
        minimum_size: Bytes((128 << 20) + 4096),
        mkfs: Program { name: "mkfs.nilfs2", package: "nilfs-tools", version: &["-V"], exit: made },
        lists: &["-O"],
        mkfs_arguments: arguments,
        check: Err("no program that checks a NILFS2 file system exists"),
        check_by_hand: &[],
        identity: Identity::Label(LABEL),
        geometry: None,
        grow: Ok((
            Program { name: "nilfs-resize", package: "nilfs-tools", version: &["-V"], exit: grown },
            &["-y", DEVICE],
        )),
        superblock,
        is_it: |_| true,
        upkeep,
        elsewhere: &[],
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: Some(BarrierOff::MountOption(&[Off { shown: "nobarrier", back: Some("barrier") }])),
    flushes: true,
    counts_inodes: true,
    notes: &[
        "No program that checks it exists.",
        "mkfs.nilfs2 takes no UUID: a medium of ours is known by its label.",
        "The cleaner (nilfs_cleanerd) runs beside the mount unless cleaner = false, with its built-in \
         configuration and not the host's. Checkpoints are protected from it for an hour unless \
         protection_period says less: a shorter trial shows its looking, not its cleaning.",
    ],
    options: &[
        OptionRow {
            name: "block_size",
            kind: Kind::SizeOf(&[1024, 2048, 4096]),
            rule: Rule::MkfsWord("-b"),
            help: "Size of a block (mkfs.nilfs2 -b). Left out: 4096.",
        },
        OptionRow {
            name: "segment_blocks",
            kind: Kind::Number(16, 1 << 16),
            rule: Rule::MkfsWord("-B"),
            help: "Blocks of a segment, the unit that the cleaner frees; a power of two (mkfs.nilfs2 -B). Left \
                   out: 2048.",
        },
        OptionRow {
            name: "reserved_blocks",
            kind: Kind::Number(1, 90),
            rule: Rule::MkfsWord("-m"),
            help: "Share of the segments that is kept for the cleaner (mkfs.nilfs2 -m). Left out: 5.",
        },
        OptionRow {
            name: "discard",
            kind: Kind::Flag(false),
            rule: Rule::MkfsOwn,
            help: "mkfs discards the device first (mkfs.nilfs2 without -K).",
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
            name: "order",
            kind: Kind::Word(&["relaxed", "strict"]),
            rule: Rule::MountValue { key: "order", silent: Some("relaxed") },
            help: "Whether content and metadata of all files reach the log in their order (mount -o order=). Left \
                   out: relaxed.",
        },
        ONLINE_DISCARD,
        OptionRow {
            name: "cleaner",
            kind: Kind::Flag(true),
            rule: Rule::MountOwn,
            help: "The cleaner daemon (nilfs_cleanerd) runs while it is mounted. false is what the mount helper's \
                   -i does: nothing is ever freed.",
        },
        OptionRow {
            name: "protection_period",
            kind: Kind::Seconds(0, u32::MAX as u64),
            rule: Rule::MountOwn,
            help: "Seconds for which the cleaner leaves each checkpoint (nilfs_cleanerd -p). Left out: 3600.",
        },
        EXTRA_MOUNT,
    ],
    refuse,
    unsupported: |_, _| None,
    adjust_mount,
    modules: &["nilfs2"],
    driver: |sys_fs: &Path, device| sys_fs.join("nilfs2").join(device).exists().then(|| "nilfs2".to_string()),
    driver_hint: |config| config.has("CONFIG_NILFS2_FS").then(|| "nilfs2".to_string()),
    advise: None,
};

/// Bytes of a label.
const LABEL: usize = 80;

/// Left out: force (-f), the label (-L), making nothing (-n), looking for bad blocks (-c).
const FLAGS: &[MkfsFlag] = &[MkfsFlag::with_value("-O"), MkfsFlag::alone("-v")];

fn arguments(argv: &mut Argv, options: &Options, label: &str, force: bool) {
    argv.word("-q");
    if force {
        argv.word("-f");
    }
    if options.flag("discard") != Some(true) {
        argv.word("-K");
    }
    argv.word("-L");
    argv.word(label);
}

fn refuse(options: &Options) -> Result<(), Reason> {
    match options.number("segment_blocks") {
        Some(blocks) if !blocks.is_power_of_two() => {
            return Err(Reason::new(format!("nilfs2: segment_blocks = {blocks} is no power of two"))
                .advise("give 16, 32, 64, … 65536"));
        }
        _ => {}
    }
    if options.flag("cleaner") == Some(false) && options.number("protection_period").is_some() {
        return Err(Reason::new("nilfs2: `protection_period` is the cleaner's, and `cleaner` is false")
            .advise("leave one of them out"));
    }
    Ok(())
}

/// An empty configuration file leaves nilfs_cleanerd with what it has built in (nilfs_cleanerd.conf(5)). It
/// must be a regular file: at /dev/null it gives up, and says so to the system log only.
fn adjust_mount(options: &Options, _here: &Here, plan: &mut MountPlan) {
    let cleaned = options.flag("cleaner") != Some(false) && !plan.read_only;
    plan.stated.push(("cleaner".to_string(), if cleaned { "nilfs_cleanerd" } else { "off" }.to_string()));
    if !cleaned {
        return;
    }
    let mut args = vec!["-c".to_string(), EMPTY_FILE.to_string()];
    if let Some(seconds) = options.number("protection_period") {
        args.extend(["-p".to_string(), seconds.to_string()]);
    }
    args.extend([plan.source.clone(), POINT.to_string()]);
    plan.daemon = Some(CommandLine { program: "nilfs_cleanerd".to_string(), args });
}

const OFFSET: u64 = 1024;
const LENGTH: usize = 1024;
const MAGIC: u16 = 0x3434;

/// Reads the superblock. Layout: Linux `include/uapi/linux/nilfs2_ondisk.h`, `struct nilfs_super_block`.
fn superblock(medium: &mut dyn Medium) -> Result<Superblock, Reason> {
    let block = Block::read(medium, OFFSET, LENGTH, "NILFS2 superblock")?;
    if block.le16(6) != MAGIC {
        return Err(Reason::new("no NILFS2 superblock here (its magic number is missing)"));
    }
    // 1 KiB shifted by as much, up to 64 KiB.
    let shift = block.le32(20);
    if shift > 6 {
        return Err(Reason::new(format!("NILFS2 superblock: a block size of 2^{shift} KiB cannot be")));
    }
    let size = 1024u64 << shift;
    let label = block.text(168, LABEL);
    let mut features = names("compat", block.le64(256), &[]);
    features.extend(names("ro_compat", block.le64(264), &[(0x1, "block_count")]));
    features.extend(names("incompat", block.le64(272), &[]));
    let facts = BTreeMap::from([
        ("size".to_string(), json!(block.le64(32))),
        ("block_size".to_string(), json!(size)),
        ("segments".to_string(), json!(block.le64(24))),
        ("segment_blocks".to_string(), json!(block.le32(48))),
        ("reserved_blocks".to_string(), json!(block.le32(52))),
        ("inode_size".to_string(), json!(block.le16(144))),
        ("version".to_string(), json!(format!("{}.{}", block.le32(0), block.le16(4)))),
        ("features".to_string(), json!(features)),
        ("label".to_string(), json!(label)),
    ]);
    Ok(Superblock { uuid: label, facts })
}

/// Reads the upkeep. The superblock has a most of mounts and an interval too, but the kernel only says in its
/// log that they are over, and no program checks: nothing happens after so many mounts.
fn upkeep(medium: &mut dyn Medium) -> Result<Upkeep, Reason> {
    let facts = superblock(medium)?.facts;
    let block = Block::read(medium, OFFSET, LENGTH, "NILFS2 superblock")?;
    Ok(Upkeep {
        smallest_write: facts.get("block_size").and_then(Value::as_u64).map(Bytes),
        mounts: Some(block.le16(112).into()),
        ..Upkeep::default()
    })
}
