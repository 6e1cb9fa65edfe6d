# Wrong: ext4 with the stride of an array of 128 KiB chunks and four data disks, on 64 KiB and three.
raid 5 4 --chunk=64K
mkfs.ext4 -q -E stride=32,stripe_width=128 /dev/md0
mounted /dev/md0
