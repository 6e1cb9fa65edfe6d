# Wrong: one member's cache is said to be written through.
raid 1 2
echo 'write through' >"$(queue "${D[1]}")/write_cache"
mkfs.ext4 -q /dev/md0
mounted /dev/md0
