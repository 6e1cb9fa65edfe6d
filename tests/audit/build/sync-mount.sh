# Wrong: every write waits for the disk.
mkfs.xfs -q "${D[0]}"
mounted "${D[0]}" -o sync
