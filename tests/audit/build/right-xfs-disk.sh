# Right: XFS on a whole disk.
mkfs.xfs -q "${D[0]}"
mounted "${D[0]}"
