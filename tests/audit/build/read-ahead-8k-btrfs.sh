# Wrong: 8 KiB of read-ahead for the files of a btrfs, which has its own beside the device's.
load btrfs
mkfs.btrfs -q "${D[0]}"
mounted "${D[0]}"
echo 8 | tee /sys/fs/btrfs/*-*/bdi/read_ahead_kb
