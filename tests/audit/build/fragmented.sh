# Wrong: a third is free, in pieces of 16 KiB.
group 4M "${D[0]}"
volume small 512M
mkfs.ext4 -q -m 0 /dev/vg/small
mounted /dev/vg/small
fragment "$TARGET/sieve" $((320 << 20)) 16384
fallocate -l $((($(stat -f -c %f "$TARGET") - 45000) * 4096)) "$TARGET/filler"
sync
