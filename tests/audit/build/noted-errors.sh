# Wrong, and a danger: the kernel met an error and noted it in the superblock.
mkfs.ext4 -q "${D[0]}"
mounted "${D[0]}" -o errors=continue
echo test >"/sys/fs/ext4/$(basename "${D[0]}")/trigger_fs_error"
sync
