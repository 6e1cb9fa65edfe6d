# Wrong: the data of the physical volume begins at 1 MiB, which is no multiple of a stripe of 192 KiB.
raid 5 4 --chunk=64K
group 6M /dev/md0 --dataalignment 1M
volume one 2562M
mkfs.ext4 -q /dev/vg/one
mounted /dev/vg/one
