# Wrong, and a danger: the volume is told to be write through, and the disk below is not.
group 4M "${D[0]}"
volume one 2G
mkfs.xfs -q /dev/vg/one
echo 'write through' >"$(queue /dev/vg/one)/write_cache"
mounted /dev/vg/one
