# Right: F2FS on a whole disk.
mkfs.f2fs -q "${D[0]}"
mounted "${D[0]}" -t f2fs
