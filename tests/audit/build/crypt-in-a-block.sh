# Wrong: encrypted data begins at sector 63 of a plain disk: every 4 KiB block lies on two.
crypt "${D[0]}" 63
mkfs.ext4 -q /dev/mapper/secret
mounted /dev/mapper/secret
