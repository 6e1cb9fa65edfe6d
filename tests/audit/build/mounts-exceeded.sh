# Wrong: mounted 99 times since its last check, which was to be after 20.
mkfs.ext4 -q "${D[0]}"
tune2fs -c 20 -C 99 "${D[0]}"
mounted "${D[0]}"
