# Neither: a partition that is part of an array. What is on it is the array's, and is asked for there.
partition "${D[0]}" 2048
partition "${D[1]}" 2048
TARGET=${D[0]}1
D=("${D[0]}1" "${D[1]}1")
raid 1 2
mkfs.ext4 -q /dev/md0
