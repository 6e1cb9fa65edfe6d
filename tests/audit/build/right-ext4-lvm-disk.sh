# Right: ext4 on a volume on a partition at 1 MiB.
partition "${D[0]}" 2048
group 4M "${D[0]}1"
volume one 1G
mkfs.ext4 -q /dev/vg/one
mounted /dev/vg/one
