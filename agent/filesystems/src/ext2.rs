//! ext2: no journal.

use fsdyno_spec::outcome::Reason;
use fsdyno_spec::units::Bytes;

use crate::barriers::BarrierOff;
use crate::ext;
use crate::filesystem::{DiscardOff, Disk, FileSystem, Identity};
use crate::here::{Here, KernelConfig};
use crate::options::{EXTRA_MOUNT, GEOMETRY, NOATIME, ONLINE_DISCARD, Options};
use crate::plan::DEVICE;

pub(crate) static EXT2: FileSystem = FileSystem {
    name: "ext2",
    summary: "without a journal; a check must read everything after a crash",
    fstype: "ext2",
    disk: Some(Disk {
        minimum_size: Bytes::kib(128),
        mkfs: ext::MKE2FS,
        lists: ext::LISTS,
        mkfs_arguments: |argv, options, uuid, force| ext::arguments(argv, "ext2", options, uuid, force),
        check: Ok((ext::E2FSCK, ext::CHECK)),
        check_by_hand: &["-f"],
        identity: Identity::Uuid,
        geometry: Some(ext::GEOMETRY_RULE),
        grow: Ok((ext::RESIZE2FS, &[DEVICE])),
        superblock: ext::superblock,
        is_it: |superblock| ext::kind(superblock) == "ext2",
        upkeep: ext::upkeep,
        elsewhere: ext::ELSEWHERE,
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: Some(BarrierOff::MountOption(ext::BARRIERS_OFF)),
    flushes: true,
    counts_inodes: true,
    notes: &[ext::NOTE_DRIVER, ext::NOTE_LAZY],
    options: &[
        ext::BLOCK_SIZE,
        ext::INODE_SIZE,
        ext::BYTES_PER_INODE,
        ext::RESERVED_BLOCKS,
        ext::FEATURES,
        GEOMETRY,
        ext::STRIDE,
        ext::STRIPE_WIDTH,
        ext::DISCARD,
        ext::EXTRA_MKFS,
        NOATIME,
        ext::BARRIER,
        ONLINE_DISCARD,
        ext::STRIPE,
        EXTRA_MOUNT,
        ext::CHECK_READAHEAD,
    ],
    refuse: ext::refuse,
    unsupported,
    adjust_mount: |_, _, _| {},
    modules: &["ext2", "ext4"],
    driver: ext::driver,
    driver_hint,
    advise: None,
};

/// ext2's own driver wins where it is built; else ext4 takes the name over if it was built to.
fn driver_hint(config: &KernelConfig) -> Option<String> {
    if config.has("CONFIG_EXT2_FS") {
        return Some("ext2".to_string());
    }
    (config.has("CONFIG_EXT4_FS") && config.has("CONFIG_EXT4_USE_FOR_EXT2")).then(|| "ext4".to_string())
}

/// ext2's own driver knows less than ext4's.
fn unsupported(options: &Options, here: &Here) -> Option<Reason> {
    if here.config.has("CONFIG_EXT2_FS") {
        let asked = [
            ("barrier", options.flag("barrier") == Some(false)),
            ("online_discard", options.flag("online_discard") == Some(true)),
            ("stripe", options.get("stripe").is_some()),
        ];
        if let Some((name, _)) = asked.iter().find(|(_, asked)| *asked) {
            return Some(
                Reason::new(format!(
                    "the ext2 driver of this kernel ({}) has no option for `{name}`",
                    here.release
                ))
                .advise(
                    "leave it out, or take a kernel whose ext4 driver serves ext2 (Debian's, in a guest)",
                ),
            );
        }
    }
    ext::unsupported(options, here)
}
