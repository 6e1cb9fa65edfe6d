# Wrong: last checked in 2019, and no number of mounts or days makes it be checked.
mkfs.ext4 -q "${D[0]}"
tune2fs -c 0 -i 0 -T 20190101 "${D[0]}"
mounted "${D[0]}"
