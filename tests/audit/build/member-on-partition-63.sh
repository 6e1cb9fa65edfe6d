# Wrong: members that are partitions at sector 63: every chunk lies across blocks of the disks.
partition "${D[0]}" 63
partition "${D[1]}" 63
D=("${D[0]}1" "${D[1]}1")
raid 0 2 --chunk=64K
mkfs.ext4 -q /dev/md0
mounted /dev/md0
