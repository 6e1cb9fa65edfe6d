# Wrong: a volume over two arrays. Its piece on the first one is on the stripe, that on the second one is not.
raid 5 4 --chunk=64K
D=("${D[@]:4}") MD=/dev/md1
raid 5 4 --chunk=64K
lvm pvcreate --yes /dev/md0 /dev/md1
lvm vgcreate --yes --physicalextentsize 4M vg /dev/md0 /dev/md1
lvm lvcreate --yes --wipesignatures y --name wall --extents 1 vg /dev/md1
lvm lvcreate --yes --wipesignatures y --name one --extents 300 vg /dev/md0
lvm lvextend --extents +300 vg/one /dev/md1
mkfs.xfs -q /dev/vg/one
mounted /dev/vg/one
