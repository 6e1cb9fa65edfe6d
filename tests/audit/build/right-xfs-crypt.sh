# Right: XFS on an encrypted disk.
crypt "${D[0]}" 4096
mkfs.xfs -q /dev/mapper/secret
mounted /dev/mapper/secret
