# Wrong: a partition at sector 63 of an array with a stripe of 192 KiB, of which 1 MiB is no multiple either.
raid 5 4 --chunk=64K
partition /dev/md0 63
mkfs.ext4 -q /dev/md0p1
mounted /dev/md0p1
