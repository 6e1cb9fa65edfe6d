"""The agent's advice for an array as people read it: 80 columns, and commands that can be pasted.

Every number and every command is the agent's; what is here is their order on the screen. A command that
is too long goes on behind a backslash, and is broken only where a shell lets it be.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

WIDTH = 80  # columns
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

# A word of a shell with its quotes: a break inside of them would become part of the word.
_WORD = re.compile(r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"])+""")
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Line:
    """A line and how it is shown: `heading`, `command`, `why` or `plain`."""

    text: str
    style: str = "plain"


def lines(advice: Mapping[str, Any]) -> Iterator[Line]:
    """An answer of the agent's verb `align`, line by line."""
    yield Line(title(advice["array"]), "heading")
    numbers = advice.get("numbers")
    if numbers:
        yield from (Line(f"  {name:<17}{value}") for name, value in table(numbers))
    else:
        yield Line("  nothing is striped: no numbers to tell")
    for section, found in groupby(advice["steps"], _section):
        yield Line("")
        yield Line(section, "heading")
        for command, steps in groupby(found, _command):
            for step in steps:
                of = step.get("filesystem")
                yield from _wrapped(f"{of}: {step['why']}" if of else step["why"], "why")
            yield from (Line(text, "command") for text in pasted(command))
    notes = advice.get("notes")
    if notes:
        yield Line("")
        yield Line("To know", "heading")
        for note in notes:
            yield from _wrapped(note, "plain", bullet="- ")


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


def pasted(command: str) -> list[str]:
    """A command in lines that a shell reads as one."""
    words = _WORD.findall(command)
    if " ".join(words) != command:  # not of words alone: better long than broken
        return [f"    {command}"]
    rows = [f"    {words[0]}"]
    for index, word in enumerate(words[1:], start=1):
        room = WIDTH if index == len(words) - 1 else WIDTH - 2
        if len(rows[-1]) + 1 + len(word) <= room:
            rows[-1] += f" {word}"
        else:
            rows[-1] += " \\"
            rows.append(f"      {word}")
    return rows


def _section(step: Mapping[str, Any]) -> str:
    kind = str(step["kind"])
    return SECTIONS.get(kind, kind)


def _command(step: Mapping[str, Any]) -> str:
    return str(step["command"])


def _wrapped(text: str, style: str, bullet: str = "") -> Iterator[Line]:
    for row in textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {bullet}",
        subsequent_indent="  " + " " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield Line(row, style)
