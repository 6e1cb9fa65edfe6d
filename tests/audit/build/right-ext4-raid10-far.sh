# Right: ext4 on RAID 10 with two far copies: all four disks hold data.
raid 10 4 --chunk=64K --layout=f2
mkfs.ext4 -q -E stride=16,stripe_width=64 /dev/md0
mounted /dev/md0
