# Right: btrfs on a whole disk.
load btrfs
mkfs.btrfs -q "${D[0]}"
mounted "${D[0]}"
