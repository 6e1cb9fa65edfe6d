# Wrong: each deletion waits for a discard.
scsi lbpu=1
mkfs.ext4 -q "$SCSI"
mounted "$SCSI" -o discard
