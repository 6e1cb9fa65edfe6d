"""`fsdyno guest`: the kernels that guests boot. Parses, calls and prints, as `fsdyno.cli` does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from fsdyno import printing
from fsdyno.errors import Exit, UserError
from fsdyno.printing import echo

Command = TypeVar("Command", bound=Callable[..., Any])


def cache_option(command: Command) -> Command:
    """`--cache DIR`, on every command that looks at or uses guests."""
    return click.option(
        "--cache",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The folder with the kernels for guests.",
    )(command)


@click.group(name="guest")
def guest() -> None:
    """Look after the kernels that guests boot."""


@guest.command("setup")
@click.option("--package", metavar="NAME", help="A kernel package of the distribution [linux-image-amd64].")
@click.option(
    "--deb",
    "debs",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A kernel package that is here already; again for its modules, if those are apart.",
)
@click.option("--kernel", type=click.Path(path_type=Path), metavar="FILE", help="A kernel image of your own.")
@click.option("--modules", type=click.Path(path_type=Path), metavar="DIR", help="Its modules.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Its configuration.")
@click.option("--fresh", is_flag=True, help="Also if it is there already.")
@cache_option
def setup(
    package: str | None,
    debs: tuple[Path, ...],
    kernel: Path | None,
    modules: Path | None,
    config: Path | None,
    fresh: bool,
    cache: Path | None,
) -> None:
    """Unpack a kernel for guests into the cache. Installs nothing, needs no root."""
    from fsdyno import guest as room
    from fsdyno.units import show_bytes

    origin: room.Archive | room.Debs | room.Files
    if sum((package is not None, bool(debs), kernel is not None)) > 1:
        raise UserError(
            "only one of --package, --deb and --kernel can be the kernel's origin",
            code=Exit.USAGE,
            advice="leave out the others",
        )
    if (kernel is None) != (modules is None) or (config and not kernel):
        raise UserError(
            "a kernel of your own is given by --kernel FILE and --modules DIR together",
            code=Exit.USAGE,
            advice="such as: --kernel arch/x86/boot/bzImage --modules /lib/modules/RELEASE",
        )
    if kernel and modules:
        origin = room.Files(kernel, modules, config)
    else:
        origin = room.Debs(debs) if debs else room.Archive(package) if package else room.Archive()
    begun = time.monotonic()
    with telling() as say:
        done = room.setup(room.cache_folder(cache), say, origin, fresh=fresh)
    what = f"guest kernel {done.kernel.release} ({done.kernel.source}): {done.kernel.folder}"
    if done.already:
        echo(f"{what}: is there")
        if done.newer:
            echo(f"  the distribution has {done.newer}: --fresh unpacks it")
    else:
        took, size = time.monotonic() - begun, show_bytes(done.kernel.size())
        echo(f"{what}: unpacked in {took:.1f} s, {done.modules} modules, {size}")


@guest.command("list")
@cache_option
def list_kernels(cache: Path | None) -> None:
    """List the kernels that guests can boot, newest first."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from fsdyno import guest as room
    from fsdyno.units import show_bytes

    place = room.cache_folder(cache)
    found = room.kernels(place)
    if not found:
        echo(f"no guest kernel in {place}; `fsdyno guest setup` gets one")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("release", "source", "size", "folder"):
        table.add_column(column, overflow="fold")
    for kernel in found:
        size = show_bytes(kernel.size())
        table.add_row(*map(Text, (kernel.release, kernel.source, size, str(kernel.folder))))
    printing.console(highlight=False).print(table)


@guest.command("remove")
@click.argument("release")
@cache_option
def remove(release: str, cache: Path | None) -> None:
    """Remove a kernel from the cache."""
    from fsdyno import guest as room

    with telling() as say:
        gone = room.remove(room.cache_folder(cache), release, say)
    echo(f"removed {gone.folder}")


@contextlib.contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Where long work is told: one live line on a terminal, lines elsewhere; all on standard error."""
    from rich.text import Text

    console = printing.console(stderr=True)
    if not console.is_terminal:
        yield lambda text: echo(text, err=True)
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(printing.visible(text)))
