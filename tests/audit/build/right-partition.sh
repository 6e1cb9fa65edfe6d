# Right: ext4 on a partition at 1 MiB.
partition "${D[0]}" 2048
mkfs.ext4 -q "${D[0]}1"
mounted "${D[0]}1"
