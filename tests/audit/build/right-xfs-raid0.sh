# Right: XFS on RAID 0 of partitions at 1 MiB.
partition "${D[0]}" 2048
partition "${D[1]}" 2048
D=("${D[0]}1" "${D[1]}1")
raid 0 2 --chunk=64K
mkfs.xfs -q /dev/md0
mounted /dev/md0
