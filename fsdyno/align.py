"""The agent's advice for an array as people read it: 80 columns, and commands that can be pasted.

Every number and every command is the agent's; what is here is their order on the screen. A command that
is too long goes on behind a backslash, and is broken only where a shell lets it be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from fsdyno.lines import WIDEST, Line, pasteable, wrap

SECTIONS = {
    "partition": "Partition",
    "pvcreate": "LVM",
    "vgcreate": "LVM",
    "lvcreate": "LVM",
    "mkfs": "File system",
    "mount": "Mount",
    "read_ahead": "Read-ahead",
}
"""Heading by kind of step; the agent sends them in the order of doing them."""

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def lines(advice: Mapping[str, Any]) -> Iterator[Line]:
    """An answer of the agent's verb `align`, line by line."""
    yield _line(title(advice["array"]), "bold")
    for warning in advice.get("warnings", ()):
        yield from _wrapped(warning, "red", bullet="! ")
    numbers = advice.get("numbers")
    if numbers:
        yield from (_line(f"  {name:<17}{value}") for name, value in table(numbers))
    else:
        yield _line("  nothing is striped: no numbers to tell")
    for section, found in groupby(advice["steps"], _section):
        yield ()
        yield _line(section, "bold")
        for command, steps in groupby(found, _command):
            for step in steps:
                of = step.get("filesystem")
                yield from _wrapped(f"{of}: {step['why']}" if of else step["why"], "dim")
            yield from (_line(f"    {row}", "cyan") for row in pasteable(command, WIDEST - 4))
    notes = advice.get("notes")
    if notes:
        yield ()
        yield _line("To know", "bold")
        for note in notes:
            yield from _wrapped(note, "", bullet="- ")


def title(array: Mapping[str, Any]) -> str:
    """The array in one line: `RAID 6, 12 members, chunk 128 KiB, left-symmetric`."""
    members = f"{array['members']} member" + ("" if array["members"] == 1 else "s")
    parts = [f"RAID {array['level']}", members]
    if array.get("chunk") is not None:
        parts.append(f"chunk {exact(array['chunk'])}")
    if array.get("layout"):
        parts.append(array["layout"])
    device = f"{array['device']}: " if array.get("device") else ""
    return device + ", ".join(parts)


def table(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The numbers by name, each with its unit."""
    block = exact(numbers["block_size"])
    return [
        ("stripe", f"{exact(numbers['stripe'])}, {numbers['data_disks']} data disks"),
        ("stride", f"{numbers['stride']} blocks of {block}"),
        ("stripe width", f"{numbers['stripe_width']} blocks of {block}"),
        ("su, sw", f"{exact(numbers['su'])}, {numbers['sw']}"),
        ("sunit, swidth", f"{numbers['sunit']}, {numbers['swidth']} sectors of 512 bytes"),
        ("partition start", f"{exact(numbers['data_alignment'])} or a multiple"),
        ("LVM extent", exact(numbers["extent"])),
        ("read-ahead", exact(numbers["read_ahead"])),
        ("minimum_io_size", f"{numbers['minimum_io_size']} bytes, as the kernel announces it"),
        ("optimal_io_size", f"{numbers['optimal_io_size']} bytes, as the kernel announces it"),
    ]


def exact(size: int) -> str:
    """A size in the largest unit in which it is whole: `1280 KiB`, not `1.2 MiB`."""
    for unit, name in _UNITS:
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def _section(step: Mapping[str, Any]) -> str:
    kind = str(step["kind"])
    return SECTIONS.get(kind, kind)


def _command(step: Mapping[str, Any]) -> str:
    return str(step["command"])


def _wrapped(text: str, style: str, bullet: str = "") -> Iterator[Line]:
    for n, row in enumerate(wrap(text, WIDEST - 2 - len(bullet))):
        yield _line(f"  {bullet if n == 0 else ' ' * len(bullet)}{row}", style)


def _line(text: str, style: str = "") -> Line:
    return ((text, style),)
