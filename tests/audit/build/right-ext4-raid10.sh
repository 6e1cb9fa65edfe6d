# Right: ext4 on RAID 10 with two near copies: two data disks of four.
raid 10 4 --chunk=64K --layout=n2
mkfs.ext4 -q -E stride=16,stripe_width=32 /dev/md0
mounted /dev/md0
