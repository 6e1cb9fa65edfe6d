# Right: XFS on RAID 6, as it finds the geometry.
raid 6 6 --chunk=64K
mkfs.xfs -q /dev/md0
mounted /dev/md0
