"""The command line: parse, call, print. Decides nothing and probes nothing.

Everything heavy is imported inside the command that needs it, so that `fsdyno --help` stays quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from fsdyno import __version__, cli_align, cli_audit, cli_guest, interrupt, printing
from fsdyno.cli_guest import cache_option, telling
from fsdyno.errors import Exit, UserError, unwritten
from fsdyno.printing import echo

if TYPE_CHECKING:
    from rich.console import Console

    from fsdyno.plan import Plan
    from fsdyno.report.model import Report
    from fsdyno.rig import Rig
    from fsdyno.store import Store

MEASURED = "what was measured is in the store; see it with `fsdyno report`"

Command = TypeVar("Command", bound=Callable[..., Any])
STORE = "fsdyno.sqlite"  # fsdyno.store.DEFAULT_PATH, without importing it; tests keep them equal


def store_option(command: Command) -> Command:
    """`--store FILE`, on every command that reads or writes one."""
    return click.option(
        "--store",
        type=click.Path(path_type=Path),
        default=STORE,
        show_default=True,
        metavar="FILE",
        help="The results, an SQLite file.",
    )(command)


def folder_options(command: Command) -> Command:
    """`--state DIR` and `--work DIR`, passed to the agent."""
    path = click.Path(path_type=Path)
    for flag, text in (
        ("--work", "The agent's folder for backing files and mount points."),
        ("--state", "The agent's folder for ledgers and the rig's lock."),
    ):
        command = click.option(flag, type=path, metavar="DIR", help=text)(command)
    return command


def run_options(command: Command) -> Command:
    """What `run` and `bench` share."""
    for decorate in (
        click.option("--quiet", "-q", is_flag=True, help="Print the result only."),
        click.option("--name", help="Name of the campaign (default: the plan's)."),
        click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of order and data."),
        click.option(
            "--rounds", type=click.IntRange(1, 100_000), help="Number of rounds instead of the plan's."
        ),
        folder_options,
        store_option,
    ):
        command = decorate(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fsdyno")
def cli() -> None:
    """Which file system and settings are fastest here, by how much, and is the difference real?"""


@cli.command()
@click.argument("plan", type=click.Path(path_type=Path))
@run_options
@cache_option
@click.option(
    "--destroy", multiple=True, metavar="DEVICE", help="A real device of the plan that may be overwritten."
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    metavar="[CAMPAIGN]",
    help="Go on with this campaign of the plan, or with its latest unfinished one. Write it after PLAN.",
)
@click.option(
    "--place",
    type=click.Choice(["auto", "native", "guest"]),
    help="Where to run, instead of the plan's place.",
)
def run(plan: Path, state: Path | None, work: Path | None, **options: Any) -> None:
    """Run the campaign of a plan file, and answer its question."""
    _campaign(_load(plan), state, work, **options)


@cli.command()
@click.argument("directory")
@run_options
def bench(directory: str, state: Path | None, work: Path | None, **options: Any) -> None:
    """Measure an existing directory as it is: no root, no mkfs."""
    from fsdyno import bench_dir
    from fsdyno.plan import parse

    if not directory:
        raise UserError("is empty", code=Exit.USAGE, where="DIRECTORY", advice="name a directory")
    schema, describe = _waist()
    plan = parse(bench_dir.plan_text(Path(directory)), "bench", schema=schema, describe=describe)
    _campaign(plan, state, work, destroy=(), resume=None, **options)


@cli.group(name="plan")
def plan_group() -> None:
    """Look at plans without running them."""


@plan_group.command("show")
@click.argument("plan", type=click.Path(path_type=Path))
def plan_show(plan: Path) -> None:
    """Print a plan's cells, points, trials, needed space and estimated time."""
    from fsdyno.plan.show import show

    _print(show(_load(plan)))


@cli.command()
@store_option
@click.argument("campaign", required=False)
@click.option("--phase", help="Only this phase, in detail.")
@click.option("--metric", help="Only this metric, in detail.")
@click.option("--json", "form", flag_value="json", help="Machine-readable, everything.")
@click.option("--csv", "form", flag_value="csv", help="One row per cell, phase, point and metric.")
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one self-contained page."
)
def report(
    store: Path,
    campaign: str | None,
    phase: str | None,
    metric: str | None,
    form: str | None,
    html: Path | None,
) -> None:
    """Answer a campaign's question (default: the latest one's)."""
    from fsdyno.report import EXPORTERS
    from fsdyno.report.build import build

    exporter = EXPORTERS["html" if html else form or "terminal"]
    with _open(store) as opened:
        found = build(opened, campaign, depth=exporter.depth, phase=phase, metric=metric)
    if html:
        _write(html, exporter.text(found))
    elif form:
        echo(exporter.text(found), end="")
    else:
        _print_report(found, detail=bool(phase or metric))


@cli.command()
@store_option
@click.argument("trial")
@click.option("--shell", "form", flag_value="shell", help="The commands that repeat the trial by hand.")
@click.option("--json", "form", flag_value="json", help="The trial with all its events.")
@click.option("--output", is_flag=True, help="Also what the tools printed.")
def show(store: Path, trial: str, form: str | None, output: bool) -> None:
    """Tell everything of one trial (its id, or the beginning of it)."""
    from fsdyno.report import show as shown

    with _open(store) as opened:
        if form == "shell":
            echo(shown.shell(opened, trial), end="")
        elif form == "json":
            _print_json(shown.data(opened, trial))
        else:
            shown.render(opened, trial, _console(), output=output)


@cli.command()
@folder_options
@cache_option
@click.option("--json", "as_json", is_flag=True, help="The survey as it came from the agent.")
def env(state: Path | None, work: Path | None, cache: Path | None, as_json: bool) -> None:
    """Tell what this machine can measure, and for each no the reason."""
    survey = _rig(state, work, cache=cache).survey()
    if as_json:
        _print_json(survey)
        return
    from fsdyno.env import render

    _print(render(survey))


@cli.command()
@folder_options
@click.option("--json", "as_json", is_flag=True, help="As it came from the agent.")
def clean(state: Path | None, work: Path | None, as_json: bool) -> None:
    """Undo what a killed agent left: mounts, loop devices, backing files."""
    done = _rig(state, work).clean_all()
    if as_json:
        _print_json(done)
    else:
        for word, texts in (("undone", done["undone"]), ("left alone", done["left"])):
            for text in texts:
                echo(f"{word}: {text}")
        if done["live"]:
            click.echo(f"{done['live']} agent(s) at work were left alone")
        if not any((done["undone"], done["left"], done["failed"], done["live"])):
            click.echo("nothing was left behind")
    if done["failed"]:
        raise UserError(
            "could not be undone: " + "; ".join(done["failed"]),
            code=Exit.TEARDOWN,
            advice="see who uses it (fuser, lsof), then run `fsdyno clean` again; a reboot undoes it",
        )


cli.add_command(cli_audit.audit)
cli.add_command(cli_guest.guest)
cli.add_command(cli_align.align)


@cli.group(name="store")
def store_group() -> None:
    """Look after the results."""


@store_group.command("list")
@store_option
def store_list(store: Path) -> None:
    """List the campaigns of a store."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("campaign", "begun", "name", "status", "cells", "rounds"):
        table.add_column(column)
    with _open(store) as opened:
        for found in opened.campaigns():
            whole = f"{len(opened.complete_rounds(found.id))}/{found.rounds}"
            begun = _when(found.started)
            table.add_row(found.id[:8], begun, found.name, found.status, str(len(found.cells)), whole)
    _print(table)


@store_group.command("rebuild")
@store_option
def store_rebuild(store: Path) -> None:
    """Derive all samples again from the recorded events."""
    with _open(store) as opened:
        done = opened.rebuild()
    click.echo(f"{done['samples']} samples of {done['trials']} trials derived from their events")


def _campaign(
    plan: Plan,
    state: Path | None,
    work: Path | None,
    *,
    store: Path,
    quiet: bool,
    resume: str | None,
    cache: Path | None = None,
    **options: Any,
) -> None:
    """Runs a plan, prints the answer, and ends with the campaign's exit code."""
    from fsdyno.campaign import Options, run_campaign
    from fsdyno.campaign.abilities import in_directory
    from fsdyno.campaign.screen import choose, farewell
    from fsdyno.report.build import build
    from fsdyno.store import Store

    if resume is not None and (options["rounds"] or options["seed"] is not None):
        raise UserError(
            "a resumed campaign keeps its rounds and its seed",
            code=Exit.USAGE,
            where="--resume",
            advice="leave out --rounds and --seed",
        )
    _assert_planned(plan, options["destroy"])
    screen = choose(printing.console(stderr=True), quiet=quiet)
    rig = _rig(state, work, cache=cache, privileged=not all(in_directory(cell) for cell in plan.cells))
    describe = rig.describe()
    with ExitStack() as held:
        outcome = run_campaign(
            plan,
            rig,
            lambda: held.enter_context(Store.open(store, create=resume is None)),
            Options(resume=resume, **options),
            screen,
            describe=describe,
            get_kernel=lambda: _get_kernel(cache),
        )
    with _open(store) as opened:
        if opened.complete_rounds(outcome.campaign):
            found = build(opened, outcome.campaign)
            try:
                _print_report(found)
            except printing.ReaderLeft:  # the campaign's own exit code tells more
                printing.drop_stdout()
            except OSError as error:
                if (lost := printing.lost(error, MEASURED)) is None:
                    raise
                printing.drop_stdout()
                raise lost from None
    for line in farewell(outcome, plan.path, store):
        echo(line, err=True)
    if outcome.exit:
        raise SystemExit(int(outcome.exit))


def _get_kernel(cache: Path | None) -> None:
    """Puts a kernel for guests into the cache."""
    from fsdyno import guest

    with telling() as say:
        guest.ensure(guest.cache_folder(cache), say)


def _assert_planned(plan: Plan, destroy: Sequence[str]) -> None:
    """A disk that may be overwritten and that the plan does not use is a slip somewhere."""
    devices = [d for cell in plan.cells for d in cell.spec["stack"].get("devices", [])]
    named = {d["disk"]["path"] for d in devices if "disk" in d}
    for path in destroy:
        if path not in named:
            raise UserError(
                f"the plan names no disk {path!r}",
                code=Exit.UNSAFE,
                where="--destroy",
                advice=f"its disks: {', '.join(sorted(named))}"
                if named
                else "it uses no disk; leave this out",
            )


def _load(path: Path) -> Plan:
    from fsdyno.plan import load

    schema, describe = _waist()
    return load(path, schema=schema, describe=describe)


def _waist() -> tuple[dict[str, Any], dict[str, Any]]:
    """The trial schema and the tables of the agent; neither needs root."""
    rig = _rig(None, None, privileged=False)
    return rig.schema()["trial"], rig.describe()


def _rig(state: Path | None, work: Path | None, *, cache: Path | None = None, privileged: bool = True) -> Rig:
    from fsdyno.rig import Rig

    return Rig(state=state, work=work, cache=cache, privileged=privileged)


def _open(path: Path) -> Store:
    from fsdyno.store import Store

    return Store.open(path)


def _console() -> Console:
    return printing.console(highlight=False)


def _print(renderable: Any) -> None:
    _console().print(renderable)


def _print_report(report: Report, *, detail: bool = False) -> None:
    from fsdyno.report.terminal import render

    render(report, _console(), detail=detail)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritten(path, error) from None
    echo(f"wrote {path}", err=True)


def _print_json(value: Any) -> None:
    import json

    echo(json.dumps(value, indent=2, ensure_ascii=False))


def _when(seconds: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _fail(error: UserError) -> NoReturn:
    echo(f"fsdyno: {error}", err=True)
    sys.exit(int(error.code))


def main() -> None:
    """The entry point: every known error becomes a message and an exit code, never a traceback."""
    import io
    import os

    interrupt.install()
    try:
        printing.prepare()
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        _fail(error)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(file=said)
        echo(said.getvalue(), err=True, end="")
        sys.exit(int(Exit.USAGE))
    except (KeyboardInterrupt, click.Abort):
        echo("fsdyno: interrupted before the first trial; nothing was begun", err=True)
        sys.exit(int(Exit.INTERRUPTED))
    except (printing.ReaderLeft, BrokenPipeError):
        # Whoever read the output has seen enough; say nothing more, also not at exit.
        printing.drop_stdout()
        sys.exit(int(Exit.OK))
    except Exception as error:
        unwritten = printing.lost(error) if isinstance(error, OSError) else None
        if unwritten:
            printing.drop_stdout()
            _fail(unwritten)
        if os.environ.get("FSDYNO_TRACE"):
            raise
        echo(f"fsdyno: this is a defect of fsdyno: {type(error).__name__}: {error}", err=True)
        echo("  see where with FSDYNO_TRACE=1, and please report it", err=True)
        sys.exit(int(Exit.INTERNAL))
    finally:
        interrupt.ignore()
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
