//! ext3: ext2 with a journal.

use fsdyno_spec::units::Bytes;

use crate::barriers::BarrierOff;
use crate::ext;
use crate::filesystem::{DiscardOff, Disk, FileSystem, Identity};
use crate::options::{EXTRA_MOUNT, GEOMETRY, NOATIME, ONLINE_DISCARD};
use crate::plan::DEVICE;

pub(crate) static EXT3: FileSystem = FileSystem {
    name: "ext3",
    summary: "ext2 with a journal",
    fstype: "ext3",
    disk: Some(Disk {
        // Below this mke2fs says that the device is too small for a journal, makes none, and exits 0.
        minimum_size: Bytes::mib(2),
        mkfs: ext::MKE2FS,
        lists: ext::LISTS,
        mkfs_arguments: |argv, options, uuid, force| ext::arguments(argv, "ext3", options, uuid, force),
        check: Ok((ext::E2FSCK, ext::CHECK)),
        check_by_hand: &["-f"],
        identity: Identity::Uuid,
        geometry: Some(ext::GEOMETRY_RULE),
        grow: Ok((ext::RESIZE2FS, &[DEVICE])),
        superblock: ext::superblock,
        is_it: |superblock| ext::kind(superblock) == "ext3",
        upkeep: ext::upkeep,
        elsewhere: ext::ELSEWHERE,
        discard_off: Some(DiscardOff::Remount("nodiscard")),
    }),
    barrier_off: Some(BarrierOff::MountOption(ext::BARRIERS_OFF)),
    flushes: true,
    counts_inodes: true,
    notes: &[ext::NOTE_DRIVER, ext::NOTE_LAZY, ext::NOTE_JOURNAL],
    options: &[
        ext::BLOCK_SIZE,
        ext::INODE_SIZE,
        ext::BYTES_PER_INODE,
        ext::RESERVED_BLOCKS,
        ext::JOURNAL_SIZE,
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
        ext::DATA,
        ext::COMMIT,
        EXTRA_MOUNT,
        ext::CHECK_READAHEAD,
    ],
    refuse: ext::refuse,
    unsupported: ext::unsupported,
    adjust_mount: |_, _, _| {},
    modules: &["ext4"],
    driver: ext::driver,
    driver_hint: ext::driver_hint,
    advise: None,
};
