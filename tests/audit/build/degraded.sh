# Wrong: RAID 6 without one of its members.
raid 6 5 --chunk=64K
mkfs.xfs -q /dev/md0
mounted /dev/md0
mdadm --manage /dev/md0 --fail "${D[4]}"
mdadm --manage /dev/md0 --remove "${D[4]}"
