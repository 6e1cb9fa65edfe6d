# Wrong: bfq, which idles for readers, at a disk that does not rotate.
scsi
load bfq
echo bfq >"$(queue "$SCSI")/scheduler"
mkfs.ext4 -q "$SCSI"
mounted "$SCSI"
