# Right: XFS on an encrypted disk.
load dm_crypt
dmsetup create secret --uuid CRYPT-PLAIN-secret --table \
    "0 $(($(blockdev --getsz "${D[0]}") - 4096)) crypt aes-xts-plain64 $(printf '0%.0s' {1..128}) 0 ${D[0]} 4096"
dmsetup mknodes
mkfs.xfs -q /dev/mapper/secret
mounted /dev/mapper/secret
