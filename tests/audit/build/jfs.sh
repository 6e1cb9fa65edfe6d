# Wrong, and a danger: JFS sends no flushes, and the disk has a volatile cache.
mkfs.jfs -q "${D[0]}"
mounted "${D[0]}" -t jfs
