# Wrong: encrypted data that begins 2 MiB into an array with a stripe of 192 KiB.
raid 5 4 --chunk=64K
crypt /dev/md0 4096
mkfs.xfs -q /dev/mapper/secret
mounted /dev/mapper/secret
