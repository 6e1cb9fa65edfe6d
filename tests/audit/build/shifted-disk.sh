# Wrong: a disk shifted so that sector 63 fits its blocks of 4 KiB, used from its start.
scsi physblk_exp=3 lowest_aligned=7
mkfs.ext4 -q -b 4096 "$SCSI"
mounted "$SCSI"
