# Wrong: XFS that writes pieces of 512 bytes to a disk of 4 KiB sectors.
scsi physblk_exp=3
mkfs.xfs -q -f -s size=512 "$SCSI"
mounted "$SCSI"
