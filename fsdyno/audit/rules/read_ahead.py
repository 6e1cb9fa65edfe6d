"""How much is read ahead of a program that reads in order: that of the file system, which counts."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.evidence import ready
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.units import show_bytes

DEFAULT = 128 << 10  # VM_READAHEAD_PAGES of the kernel
# What the kernel gives a file system with a read-ahead of its own at least; it knows of no stripe.
OWN = 4 << 20
LARGE = 64 << 20


def judge(stack: Stack) -> Iterator[Finding]:
    """Against the kernel's defaults: 128 KiB, and two stripes on an array, of which one is asked for here.

    More than 64 MiB is too much, unless the array's stripe makes the kernel choose it. Of stripes whose
    read-ahead is not recorded nothing is said.
    """
    mount = stack.mount
    if mount is None or mount.read_ahead is None or not stack.layers:
        return
    told = [stripes.read_ahead for stripes in stack.uppermost if stripes.read_ahead is not None]
    if len(told) < len(stack.uppermost):
        return
    stripe = max((stripes.stripe for stripes in stack.uppermost), default=0)
    least, found = max(DEFAULT, min(stripe, OWN)), mount.read_ahead
    usual = max(DEFAULT, *told) if told else DEFAULT
    if found < least:
        expected = f"{show_bytes(usual)} ({'two stripes' if usual > DEFAULT else 'the kernel’s default'})"
        why = "a program that reads in order waits for each small piece"
        if stripe:
            why += ", and not all members work at once"
    elif found > max(LARGE, 2 * usual):
        expected = f"{show_bytes(usual)} to {show_bytes(LARGE)}"
        why = "each reader fills that much memory with what may never be asked for"
    else:
        return
    yield Finding(
        Severity.ADVICE,
        mount.point,
        f"read-ahead of {show_bytes(found)} for its files",
        expected,
        why,
        f"echo {usual >> 10} > {shell.word(f'/sys/class/bdi/{mount.bdi}/read_ahead_kb')}",
    )


RULE = Rule(
    name="read-ahead",
    title="read-ahead that the file system uses",
    source="VM_READAHEAD_PAGES and disk_update_readahead of the kernel; Linux "
    "Documentation/ABI/testing/sysfs-class-bdi; measured: md takes twice optimal_io_size",
    needs=(),
    judge=judge,
    caught=("read-ahead-8k", "read-ahead-8k-btrfs"),
    evidence=ready.READ_AHEAD,
)
