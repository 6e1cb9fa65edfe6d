# Wrong: the second volume off the stripe of 192 KiB, since 640 extents of 4 MiB are no multiple of it.
raid 5 4 --chunk=64K
group 4M /dev/md0
volume one 2560M
volume two 2560M
mkfs.ext4 -q /dev/vg/two
mounted /dev/vg/two
