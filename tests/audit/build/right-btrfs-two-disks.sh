# Right: btrfs on two disks.
load btrfs
mkfs.btrfs -q -m raid1 -d raid1 "${D[0]}" "${D[1]}"
btrfs device scan "${D[0]}" "${D[1]}"
mounted "${D[0]}"
