# Right: XFS on a volume that LVM stripes over two disks.
lvm pvcreate --yes "${D[0]}" "${D[1]}"
lvm vgcreate --yes vg "${D[0]}" "${D[1]}"
lvm lvcreate --yes --type striped --stripes 2 --stripesize 64K --name one --size 4G vg
mkfs.xfs -q /dev/vg/one
mounted /dev/vg/one
