# Right: a volume that LVM stripes over two arrays, by pieces that are a stripe of theirs: 128 KiB.
raid 5 3 --chunk=64K
D=("${D[@]:3}") MD=/dev/md1
raid 5 3 --chunk=64K
lvm pvcreate --yes /dev/md0 /dev/md1
lvm vgcreate --yes vg /dev/md0 /dev/md1
lvm lvcreate --yes --wipesignatures y --type striped --stripes 2 --stripesize 128K --name one --size 4G vg
mkfs.xfs -q /dev/vg/one
mounted /dev/vg/one
