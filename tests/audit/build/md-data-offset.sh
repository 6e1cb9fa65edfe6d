# Wrong: the members' data begins 3.5 KiB behind a multiple of 4 KiB.
assemble 1 2 --bitmap=none --assume-clean --data-offset=2055s
mkfs.ext4 -q /dev/md0
mounted /dev/md0
