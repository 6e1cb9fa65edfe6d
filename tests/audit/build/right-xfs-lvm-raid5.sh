# Right: the second volume on RAID 5, with extents of 6 MiB: a multiple of the stripe of 192 KiB.
raid 5 4 --chunk=64K
group 6M /dev/md0
volume one 2562M
volume two 2562M
mkfs.xfs -q /dev/vg/two
mounted /dev/vg/two
