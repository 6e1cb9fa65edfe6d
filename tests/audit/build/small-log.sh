# Wrong: XFS with a log of 16 MiB, where mkfs takes 64 MiB by itself.
mkfs.xfs --unsupported -q -l size=16m "${D[0]}"
mounted "${D[0]}"
