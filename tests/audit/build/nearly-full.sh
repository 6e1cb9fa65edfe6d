# Wrong: four percent free.
partition "${D[0]}" 2048
group 4M "${D[0]}1"
volume small 512M
mkfs.ext4 -q -m 0 /dev/vg/small
mounted /dev/vg/small
fallocate -l $(($(stat -f -c %f "$TARGET") * 96 / 100 * 4096)) "$TARGET/filler"
sync
