# Wrong: the data of the physical volume begins at 1026 KiB, within a block of 4 KiB, on a plain disk.
group 4M "${D[0]}" --dataalignment 1026K
volume one 1G
mkfs.ext4 -q /dev/vg/one
mounted /dev/vg/one
