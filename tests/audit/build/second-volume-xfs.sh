# Wrong: as second-volume-ext4; XFS records the geometry of the array all the same.
raid 5 4 --chunk=64K
group 4M /dev/md0
volume one 2560M
volume two 2560M
mkfs.xfs -q /dev/vg/two
mounted /dev/vg/two
