# Right: ext4 with the array's numbers: 64 KiB chunks and three data disks are 16 and 48 blocks.
raid 5 4 --chunk=64K
mkfs.ext4 -q -E stride=16,stripe_width=48 /dev/md0
mounted /dev/md0
