# Right: ext4 on a mirror, which has no stripe.
raid 1 2
mkfs.ext4 -q /dev/md0
mounted /dev/md0
