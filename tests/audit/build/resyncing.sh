# Wrong for now: RAID 6 that still computes its parity.
assemble 6 4 --chunk=64K --bitmap=none
echo 10 >/sys/block/md0/md/sync_speed_max
mkfs.ext4 -q /dev/md0
mounted /dev/md0
