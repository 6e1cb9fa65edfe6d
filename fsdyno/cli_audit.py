"""`fsdyno audit`: what is right and wrong with a stack that runs. Parses, calls and prints."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fsdyno import lines, printing
from fsdyno.errors import Exit, UserError

if TYPE_CHECKING:
    from fsdyno.audit.evidence import Cost
    from fsdyno.audit.rule import Rule
    from fsdyno.audit.run import Audit

NARROWEST = 40
STORE = "fsdyno.sqlite"
PIPE = "-"  # for a file: standard input or output


@click.command(name="audit")
@click.argument("target", default=".", metavar="[PATH|DEVICE|RECORD|-]")
@click.option("--json", "as_json", is_flag=True, help="The audit for programs.")
@click.option(
    "--save",
    metavar="FILE",
    help="Also write what was read, to be audited elsewhere; - is standard output.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=STORE,
    show_default=True,
    metavar="FILE",
    help="Results that may tell what a finding costs.",
)
def audit(target: str, as_json: bool, save: str | None, store: Path) -> None:
    """Tell what is right and wrong with a stack as it stands. Writes nothing to it.

    The stack is that below PATH (default: the current folder), or DEVICE, or one that was saved: RECORD is
    such a file, and - is standard input.
    """
    from fsdyno.audit import audit as judge
    from fsdyno.audit import read

    if save == "":
        raise UserError("is empty", code=Exit.USAGE, where="--save", advice="name a file, or - for a pipe")
    piped = save == PIPE
    if piped and as_json:
        raise UserError(
            "both the record and the audit would be written to standard output",
            code=Exit.USAGE,
            where="--save",
            advice="name a file for the record, or leave out --json",
        )
    record, recorded = _record(target)
    if save is not None:
        _save(record, save)
    found = judge(read(record))
    _print(found, store, as_json=as_json, recorded=recorded, err=piped)
    if found.worst is not None:
        raise SystemExit(int(Exit[found.worst.name]))
    if not found.stack.layers:  # nothing was judged
        raise SystemExit(int(Exit.CANNOT))


def _record(target: str) -> tuple[dict[str, Any], str | None]:
    """The record of a stack, and if it was saved, of which host and when."""
    from fsdyno.audit import record
    from fsdyno.rig import Rig

    if not target:
        raise UserError("is empty", code=Exit.USAGE, where="PATH", advice="name a path, a device or a record")

    def schema() -> dict[str, Any]:
        found: dict[str, Any] = Rig(privileged=False).schema()["record"]
        return found

    saved = record.load_piped(schema) if target == PIPE else record.load(Path(target), schema)
    if saved:
        return saved, f"recorded on {saved['host']['name']}, {_when(saved['taken'])}"
    found = Rig().stack_record(target)
    if flaw := record.flaw_beyond_schema(found):
        raise UserError(
            f"what the agent read makes no stack: {flaw}",
            code=Exit.AGENT,
            where=target,
            advice="if the stack changed just then, ask again; else build both halves from one checkout",
        )
    return found, None


def _save(record: dict[str, Any], path: str) -> None:
    from fsdyno.audit import record as records

    if path == PIPE:
        printing.echo(records.text_of(record), end="")
        return
    records.save(record, Path(path))
    printing.echo(f"wrote {path}", err=True)


def _print(found: Audit, store: Path, *, as_json: bool, recorded: str | None, err: bool) -> None:
    from fsdyno.audit.evidence import cost

    @cache
    def costs(rule: Rule) -> Cost:
        return cost(rule, found.stack, store)

    if as_json:
        import json

        from fsdyno.audit.data import data

        printing.echo(json.dumps(data(found, costs), indent=2, ensure_ascii=False))
        return
    from fsdyno.audit.show import show

    terminal = (sys.stderr if err else sys.stdout).isatty()
    lines.output(show(found, costs, width=_width(terminal), recorded=recorded), err=err)


def _width(terminal: bool) -> int:
    widest = lines.WIDEST
    return max(NARROWEST, min(widest, shutil.get_terminal_size().columns)) if terminal else widest


def _when(seconds: int) -> str:
    from datetime import datetime

    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"at an impossible time ({seconds} s since 1970)"
