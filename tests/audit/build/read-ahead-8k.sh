# Wrong: 8 KiB of read-ahead, on the device that the file system is on and so for its files.
mkfs.ext4 -q "${D[0]}"
blockdev --setra 16 "${D[0]}"
mounted "${D[0]}"
