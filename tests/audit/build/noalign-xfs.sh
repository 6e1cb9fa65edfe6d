# Wrong: XFS made without alignment, on a striped array.
raid 5 4 --chunk=64K
mkfs.xfs -q -d noalign /dev/md0
mounted /dev/md0
