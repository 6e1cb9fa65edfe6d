# Wrong, and a danger: the array is told to be write through, so that no flush reaches the members' caches.
raid 1 2
mkfs.ext4 -q /dev/md0
echo 'write through' >"$(queue /dev/md0)/write_cache"
mounted /dev/md0
