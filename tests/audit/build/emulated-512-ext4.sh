# Wrong: blocks of 1 KiB on a disk that has sectors of 4 KiB and makes as if they were 512 bytes.
scsi physblk_exp=3
mkfs.ext4 -q -b 1024 "$SCSI"
mounted "$SCSI"
