"""What is put into commands: names that a record brings are one word to a shell, whatever is in them."""

from __future__ import annotations

from shlex import quote

from fsdyno.audit.stack import Layer


def word(text: str) -> str:
    """A path or a name as one word."""
    return quote(text)


def node(layer: Layer) -> str:
    """The device of a layer as one word."""
    return quote(layer.node)


def attribute(layer: Layer, path: str) -> str:
    """A file below a layer's folder in sysfs as one word."""
    return quote(f"/sys/block/{layer.name}/{path}")


def taken_out(option: str, point: str) -> str:
    """What to do about an option that a remount does not change. The root is mounted by the kernel or the
    initramfs, and cannot be unmounted."""
    if point == "/":
        at = "fstab and out of rootflags= on the kernel's command line"
        return f"# take {option} out of {at}; that counts from the next boot on"
    mounted = quote(point)
    return f"# take {option} out of fstab, then: umount {mounted} && mount {mounted}"
