# Right: the second volume on RAID 6, whose stripe of 256 KiB divides extents of 4 MiB.
raid 6 6 --chunk=64K
group 4M /dev/md0
volume one 2500M
volume two 2500M
mkfs.ext4 -q /dev/vg/two
mounted /dev/vg/two
