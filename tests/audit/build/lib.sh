# Parts that stacks are built of, and how they are taken down again. Every stack is built on the same disks,
# one after the other, in one guest; each script begins with what the stack is, and why it is wrong or right.
# A script leaves $TARGET, what is looked at: its mount point, if it says nothing else.

D=(/dev/vd?)
MD=/dev/md0

# raid LEVEL MEMBERS [OPTION …]: $MD of the first of the disks $D, at rest from the start.
raid() {
    local level=$1 members=$2 more=()
    shift 2
    [ "$level" = 0 ] || more=(--bitmap=none --assume-clean)
    assemble "$level" "$members" "${more[@]}" "$@"
}

# assemble LEVEL MEMBERS [OPTION …]: $MD, as the options say.
assemble() {
    local level=$1 members=$2
    shift 2
    load md_mod
    mdadm --create "$MD" --run --config=none --metadata=1.2 --homehost=none --name=stack \
        --level="$level" --raid-devices="$members" "$@" "${D[@]:0:members}"
    blank "$MD"
}

# partition DEVICE SECTOR: one partition from there to the end, in an MBR.
partition() {
    perl -e 'my ($disk, $start, $size) = @ARGV;
        open my $to, "+<", $disk or die "$disk: $!";
        print $to "\0" x 446, pack("CCCCCCCCVV", 0, 0, 2, 0, 0x83, 0, 2, 0, $start, $size - $start),
            "\0" x 48, "\x55\xaa";
        close $to or die "$disk: $!"' "$1" "$2" "$(blockdev --getsz "$1")"
    blockdev --rereadpt "$1"
    case "$1" in *[0-9]) blank "${1}p1" ;; *) blank "${1}1" ;; esac
}

# blank DEVICE …: no signature of a stack before.
blank() {
    perl -e 'for my $disk (@ARGV) {
        open my $to, "+<", $disk or die "$disk: $!";
        syswrite($to, "\0" x (2 << 20)) == 2 << 20 or die "$disk: $!";
        close $to or die "$disk: $!";
    }' "$@"
}

# group EXTENT DEVICE [OPTION OF pvcreate …]: the volume group `vg`.
group() {
    local extent=$1 device=$2
    shift 2
    lvm pvcreate --yes "$@" "$device"
    lvm vgcreate --yes --physicalextentsize "$extent" vg "$device"
}

# volume NAME SIZE: a linear volume of `vg`.
volume() {
    lvm lvcreate --yes --wipesignatures y --name "$1" --size "$2" vg
}

# crypt DEVICE SECTOR: /dev/mapper/secret, whose data begins there; its key is public.
crypt() {
    load dm_crypt
    dmsetup create secret --uuid CRYPT-PLAIN-secret --table \
        "0 $(($(blockdev --getsz "$1") - $2)) crypt aes-xts-plain64 $(printf '0%.0s' {1..128}) 0 $1 $2"
    dmsetup mknodes
}

# scsi [PARAMETER …]: a SCSI disk in memory, $SCSI.
scsi() {
    load sd_mod
    load scsi_debug dev_size_mb=384 opt_blks=0 "$@"
    local deadline=$((SECONDS + 20))
    until SCSI=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/* 2>/dev/null); do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.1
    done
    SCSI=/dev/$(basename "$SCSI")
    until [ -b "$SCSI" ]; do sleep 0.1; done
}

# queue DEVICE: the folder of its queue's attributes.
queue() {
    echo "/sys/dev/block/$(stat -Lc %Hr:%Lr "$1")/queue"
}

# mounted DEVICE [OPTION OF mount …]
mounted() {
    local device=$1
    shift
    mkdir -p "$TARGET"
    mount "$@" "$device" "$TARGET"
}

# fragment FILE SIZE PIECE: a file with a hole of PIECE bytes in every two.
fragment() {
    perl -e 'my ($name, $size, $piece) = ($ARGV[0], $ARGV[1] + 0, $ARGV[2] + 0);
        open my $file, ">", $name or die "$name: $!";
        syscall(285, fileno $file, 0, 0, $size) == 0 or die "fallocate: $!";
        for (my $at = 0; $at < $size; $at += 2 * $piece) {
            syscall(285, fileno $file, 3, $at, $piece) == 0 or die "fallocate: $!";
        }' "$1" "$2" "$3"
    sync
}

# Everything back to bare disks. Programs are slow to start under emulation, so few are.
take_down() {
    local point array queue disk
    for point in $(tac /proc/mounts | cut -d' ' -f2 | grep '^/mnt/'); do umount "$point"; done
    [ ! -e /sys/module/dm_mod ] || dmsetup remove_all
    rm -rf /dev/vg /etc/cron.d/*
    for array in /sys/block/md[0-9]*; do [ ! -e "$array" ] || mdadm --stop "/dev/${array##*/}"; done
    [ ! -e /sys/module/scsi_debug ] || rmmod scsi_debug
    blank "${D[@]}"
    for queue in /sys/block/vd?/queue; do
        echo 128 >"$queue/read_ahead_kb"
        echo 'write back' >"$queue/write_cache"
        disk=${queue%/queue}
        disk=${disk##*/}
        [ ! -e "/sys/block/$disk/${disk}1" ] || blockdev --rereadpt "/dev/$disk"
    done
}
