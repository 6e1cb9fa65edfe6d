# Wrong: ext4 that knows of no stripe, on a striped array.
raid 5 4 --chunk=64K
mkfs.ext4 -q -E stride=0,stripe_width=0 /dev/md0
mounted /dev/md0
