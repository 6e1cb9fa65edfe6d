# Wrong: the volume's second piece off the stripe; its first one is on it.
raid 5 4 --chunk=64K
group 4M /dev/md0
volume one 2400M
volume wall 4M
lvm lvextend --extents +300 vg/one
mkfs.xfs -q /dev/vg/one
mounted /dev/vg/one
