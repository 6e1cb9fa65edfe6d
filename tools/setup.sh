#!/usr/bin/env bash
# Brings a fresh machine to where fsdyno runs: distribution packages with the mkfs tools, and a virtual
# environment (.venv) with the locked Python packages. Quick when all is there; safe to repeat; says
# what a person has to install where it may not do so itself.
#
#   tools/setup.sh         what running needs
#   tools/setup.sh --dev   and what tests and checks need
#
# The agent is built by `make agent`.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

level=run
[ "${1:-}" = --dev ] && level=dev

say() { printf 'setup: %s\n' "$*" >&2; }
stop() { printf 'setup: %s\n' "$@" >&2; exit 4; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root, if that is possible without asking for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif have sudo && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1; fi
}

apt_updated=
# install PACKAGE...: 0 if they are installed now.
install() {
    have apt-get || return 1
    as_root true || return 1
    if [ -z "$apt_updated" ]; then
        say "refreshing the list of distribution packages"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || say "apt-get update failed; trying with the list at hand"
        apt_updated=yes
    fi
    say "installing distribution packages: $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Tools that fsdyno calls, and the packages that have them on Debian. A file system or layer without its
# tools is left out of a campaign with that reason, and so are guests; these are wanted, not needed.
wanted=(mke2fs:e2fsprogs e2fsck:e2fsprogs mkfs.xfs:xfsprogs xfs_repair:xfsprogs mkfs.btrfs:btrfs-progs
    mkfs.jfs:jfsutils mkreiserfs:reiserfsprogs mkfs.nilfs2:nilfs-tools mkfs.f2fs:f2fs-tools mkntfs:ntfs-3g
    mdadm:mdadm lvm:lvm2 blkid:util-linux qemu-system-x86_64:qemu-system-x86 depmod:kmod)
missing=()
for pair in "${wanted[@]}"; do
    have "${pair%%:*}" || [[ " ${missing[*]-} " == *" ${pair##*:} "* ]] || missing+=("${pair##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
    if ! install "${missing[@]}"; then
        say "these distribution packages are missing and could not be installed from here: ${missing[*]}"
        say "  what needs them is left out; with root: apt-get install ${missing[*]}"
    fi
fi

# What the agent's build needs.
if ! have cc && ! install gcc libc6-dev; then
    stop "no C linker (cc): the agent cannot be built." "  with root: apt-get install gcc libc6-dev"
fi
if ! have cargo; then
    stop "no Rust tool chain (cargo, 1.91 or newer): the agent cannot be built." \
         "  install it with rustup, see https://rustup.rs"
fi

# Python 3.11 or newer.
python=
for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if have "$name" && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$name
        break
    fi
done
if [ -z "$python" ]; then
    if install python3 python3-venv && python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        python=python3
    else
        stop "Python 3.11 or newer is needed; found: $(python3 --version 2>&1 || echo none)." \
             "  install one from your distribution or from python.org"
    fi
fi

lock=requirements.lock
[ "$level" = dev ] && lock=requirements-dev.lock
# What the environment was made from; a development environment serves for running too.
key() { { cat "$1" pyproject.toml; pwd; "$python" --version; } | sha256sum | cut -d' ' -f1; }
stamp=.venv/fsdyno-setup
if [ -x .venv/bin/fsdyno ] && [ -f "$stamp" ]; then
    made=$(cat "$stamp")
    if [ "$made" = "$(key requirements-dev.lock)" ] || [ "$made" = "$(key "$lock")" ]; then
        say "ready"
        exit 0
    fi
fi

say "making a virtual environment in .venv with $("$python" --version)"
rm -rf .venv
if ! "$python" -m venv .venv 2>/dev/null; then
    rm -rf .venv
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if ! { install "python$version-venv" && "$python" -m venv .venv; }; then
        rm -rf .venv
        stop "Python's venv module does not work here." "  with root: apt-get install python$version-venv"
    fi
fi
say "installing the packages of $lock (versions and hashes are checked)"
export PIP_DISABLE_PIP_VERSION_CHECK=1
if ! .venv/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r "$lock"; then
    rm -rf .venv
    stop "the Python packages could not be installed (the reason stands above)." \
         "  without a network: point pip at a folder of wheels with PIP_FIND_LINKS and PIP_NO_INDEX=1"
fi
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
key "$lock" >"$stamp"
say "ready"
