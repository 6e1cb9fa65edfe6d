# Wrong, and a danger: no barriers above a disk with a volatile cache.
mkfs.ext4 -q "${D[0]}"
mounted "${D[0]}" -o barrier=0
