# Wrong: the disk announces an optimal size of 65535 sectors, the largest number of its field.
scsi opt_blks=65535
mkfs.ext4 -q "$SCSI"
mounted "$SCSI"
