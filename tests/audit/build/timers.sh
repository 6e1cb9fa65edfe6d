# To be known, and nothing wrong: a job that reads whole arrays.
: >/etc/cron.d/mdadm
raid 1 2
mkfs.ext4 -q /dev/md0
mounted /dev/md0
