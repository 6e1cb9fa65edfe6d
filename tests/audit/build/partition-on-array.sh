# Wrong: a partition at 1 MiB of an array with a stripe of 192 KiB.
raid 5 4 --chunk=64K
partition /dev/md0 2048
mkfs.xfs -q /dev/md0p1
mounted /dev/md0p1
