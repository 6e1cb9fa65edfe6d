# Right: ext4 in a file on XFS.
mkfs.xfs -q "${D[0]}"
mkdir -p /mnt/below
mount "${D[0]}" /mnt/below
truncate -s 1G /mnt/below/image
load loop
mkfs.ext4 -q /mnt/below/image
mounted /mnt/below/image -o loop
