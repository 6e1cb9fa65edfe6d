"""`fsdyno align`: what to tell mkfs, LVM and the kernel of an array. Parses, calls and prints."""

from __future__ import annotations

import click

from fsdyno.errors import Exit, UserError
from fsdyno.printing import echo

LARGEST = 2**63 - 1  # what the agent's numbers hold


@click.command()
@click.option("--level", type=click.IntRange(0, LARGEST), metavar="N", help="RAID level: 0, 1, 5, 6 or 10.")
@click.option("--members", type=click.IntRange(0, LARGEST), metavar="N", help="Members, without spares.")
@click.option("--chunk", metavar="SIZE", help="Bytes on one member before the next one's turn, e.g. 128K.")
@click.option("--layout", metavar="NAME", help="Where copies or parity go: near2, left-symmetric, …")
@click.option("--device", metavar="DEVICE", help="A live array, or a partition or volume on one, instead.")
@click.option("--block", metavar="SIZE", help="Block of the file system [4K].")
@click.option("--json", "as_json", is_flag=True, help="The advice as it came from the agent.")
def align(
    level: int | None,
    members: int | None,
    chunk: str | None,
    layout: str | None,
    device: str | None,
    block: str | None,
    as_json: bool,
) -> None:
    """Print the commands that put a file system on an array, aligned with its stripes.

    Describe the array by --level, --members and --chunk, or name a live one by --device. Nothing is
    changed and no root is needed: the commands are for you to run.
    """
    from fsdyno.rig import Rig

    described = {"level": level, "members": members, "chunk": chunk, "layout": layout}
    given = [f"--{name}" for name, value in described.items() if value is not None]
    if device is not None and given:
        raise UserError(
            f"a live array is not described as well ({', '.join(given)})",
            code=Exit.USAGE,
            where="--device",
            advice="leave out one or the other",
        )
    if device == "":
        raise UserError("is empty", code=Exit.USAGE, where="--device", advice="name a device: /dev/md0")
    if device is None and (level is None or members is None):
        raise UserError(
            "an array has a level and members",
            code=Exit.USAGE,
            where=" ".join(given) or None,
            advice="such as: --level 6 --members 12 --chunk 128K, or for a live array --device /dev/md0",
        )
    options: dict[str, str | int] = {"device": device} if device is not None else {}
    options |= {name: value for name, value in (("level", level), ("members", members)) if value is not None}
    options |= {
        name: _bytes(name, text) for name, text in (("chunk", chunk), ("block", block)) if text is not None
    }
    if layout is not None:
        options["layout"] = layout
    advice = Rig(privileged=False).align(options)
    if as_json:
        import json

        echo(json.dumps(advice, indent=2, ensure_ascii=False))
        return
    from fsdyno.align import lines
    from fsdyno.lines import output

    output(lines(advice))


def _bytes(name: str, text: str) -> int:
    from fsdyno.units import parse_bytes

    try:
        size = parse_bytes(text)
    except ValueError as error:
        raise UserError(str(error), code=Exit.USAGE, where=f"--{name}") from None
    if size > LARGEST:
        raise UserError(
            f"{text} is more than any array has",
            code=Exit.USAGE,
            where=f"--{name}",
            advice="64K to 512K are usual for a chunk, 4K for a block",
        )
    return size
