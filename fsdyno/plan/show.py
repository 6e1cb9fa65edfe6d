"""What `fsdyno plan show` tells about a plan before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fsdyno.plan.effects import load_of
from fsdyno.plan.estimate import Estimate, estimate
from fsdyno.plan.model import Plan, Spec
from fsdyno.plan.schema import Schema, Walker
from fsdyno.units import quote, show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(plan: Plan) -> RenderableType:
    """A rich renderable: question, cells, points, phases, cost."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    for key, value in _facts(plan, estimate(plan)):
        facts.add_row(key, Text(value))

    cells = Table(title="cells", title_justify="left", box=None, padding=(0, 2, 0, 0))
    cells.add_column("")
    for axis in plan.axes:
        cells.add_column(axis.key)
    cells.add_column("what")
    reference = plan.reference
    for cell in plan.cells:
        is_reference = bool(reference) and reference.items() <= cell.label.items()
        marks = Text("reference" if is_reference else "", style="green")
        labels = [Text(cell.label[axis.key]) for axis in plan.axes] or [Text(cell.name)]
        cells.add_row(marks, *labels[: len(plan.axes)], Text(cell.what[:12], style="dim"))

    phases = Table(title="phases", title_justify="left", box=None, padding=(0, 2, 0, 0))
    phases.add_column("", justify="right", style="dim")
    phases.add_column("name")
    phases.add_column("what is done")
    phases.add_column("")
    first = plan.cells[0]
    start, stop = first.span
    for number, phase in enumerate(first.spec["phases"]):
        kind, _ = load_of(phase)
        swept = f"once per point ({len(plan.points)})" if start <= number < stop else ""
        name = str(phase.get("name", kind))
        phases.add_row(
            str(number), Text(name), Text(summary(phase, Walker(plan.schema))), Text(swept, style="cyan")
        )
    parts: list[RenderableType] = [Text(plan.question, style="bold"), Text(), facts, Text(), cells]
    if plan.points:
        parts += [Text(), _points(plan)]
    return Group(*parts, Text(), phases)


def _points(plan: Plan) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="points, in seeded order within each trial", title_justify="left", box=None)
    for axis in plan.sweep:
        table.add_column(axis.key)
    for point in plan.points:
        table.add_row(*(Text(point.label[axis.key]) for axis in plan.sweep))
    return table


def _facts(plan: Plan, cost: Estimate) -> list[tuple[str, str]]:
    points = f" × {len(plan.points)} points" if plan.points else ""
    cells = f"{len(plan.cells)} cell{'s' if len(plan.cells) != 1 else ''}"
    seed = "given with each campaign" if plan.seed is None else str(plan.seed)
    pilot = "" if plan.rounds >= 6 else "; fewer than 6 are a pilot, without verdicts"
    return [
        ("trials", f"{plan.trials}: {plan.rounds} rounds × {cells}{points}{pilot}"),
        ("place", plan.place),
        ("stack", _stacks(plan)),
        ("seed", seed),
        ("space", show_bytes(plan.space())),
        (
            "time",
            f"about {show_seconds(cost.total)} ({show_seconds(cost.seconds_per_round)} a round) — {cost.how}",
        ),
        ("written", f"about {show_bytes(cost.bytes_written)} in all"),
        ("reference", ", ".join(f"{k} = {v}" for k, v in plan.reference.items()) or "none"),
    ]


def _stacks(plan: Plan) -> str:
    """The stack of the first cell, and how many others there are."""
    found = list(dict.fromkeys(stack(cell.spec, Walker(plan.schema)) for cell in plan.cells))
    return found[0] + (f", and {len(found) - 1} more by the matrix" if len(found) > 1 else "")


def stack(spec: Spec, walker: Walker) -> str:
    """The layers from the leaves up: `12 × file size=512 MiB > array level=6 chunk=128 KiB > lvm`."""
    given = spec["stack"]
    if given.get("directory"):
        return f"directory {given['directory']}"
    parts = []
    for number, device in enumerate(given.get("devices", ())):
        kind, table = next(iter(device.items()))
        rest = {key: value for key, value in table.items() if key != "count"}
        words = _settings(rest, walker.find(["stack", "devices", number, kind]), walker)
        parts.append(
            " ".join([*([f"{table['count']} ×"] if table.get("count", 1) > 1 else []), kind, *words])
        )
    above = []
    for layer in ("array", "lvm", "geometry"):
        if layer in given:
            words = _settings(given[layer], walker.find(["stack", layer]), walker)
            above.append(" ".join([layer, *words]))
    return " > ".join([", ".join(_counted(parts)), *above]) or "none"


def _counted(parts: Sequence[str]) -> Iterator[str]:
    """Equal ones in a row once, with their number."""
    for part, equal in groupby(parts):
        number = len(list(equal))
        yield f"{number} × {part}" if number > 1 else part


def summary(phase: Spec, walker: Walker) -> str:
    """A phase in a line, without what is the default: `tree create dataset=small threads=2`."""
    kind, load = load_of(phase)
    if load is None:
        return " ".join([kind, *_settings(phase.get(kind), walker.find(["phases", 0, kind]), walker)])
    variant = str(next(iter(phase[kind])))
    rest = {key: value for key, value in load.items() if key != "op"}
    schema = walker.find(["phases", 0, kind, variant])
    return " ".join([variant, str(load.get("op", "")), *_settings(rest, schema, walker)])


def _settings(table: Any, schema: Schema | None, walker: Walker) -> list[str]:
    if not isinstance(table, dict):
        return []
    properties = (schema or {}).get("properties", {})
    words = []
    for key, value in table.items():
        given = properties.get(key, {})
        if "default" in given and given["default"] == value:
            continue
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            tables = [" ".join(_settings(one, walker.child(given, 0), walker)) for one in value]
            words.append(f"{key}=[{', '.join(tables)}]")
            continue
        form = walker.resolve(given).get("format")
        words.append(f"{key}={_with_unit(value, form)}")
    return words


def _with_unit(value: Any, form: Any) -> str:
    if form == "bytes":
        return show_bytes(value)
    if form == "seconds":
        return show_seconds(value)
    return value if isinstance(value, str) else quote(value)
