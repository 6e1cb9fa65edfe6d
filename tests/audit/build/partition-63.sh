# Wrong: a partition at sector 63, where DOS began the first track: every 4 KiB block lies on two.
partition "${D[0]}" 63
mkfs.ext4 -q "${D[0]}1"
mounted "${D[0]}1"
