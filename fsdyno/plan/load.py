"""Reads a plan file: TOML in, a `Plan` out, or every mistake in it with its line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from fsdyno.errors import Exit, UserError
from fsdyno.plan.cells import Builder
from fsdyno.plan.checks import Tables
from fsdyno.plan.choose import Exclusion, reference
from fsdyno.plan.locate import Position, positions
from fsdyno.plan.matrix import Axes, product
from fsdyno.plan.model import PLACES, Plan
from fsdyno.plan.problems import Path, PlanError, Problem, unknown
from fsdyno.plan.sound import assert_sound
from fsdyno.plan.values import strange, too_deep
from fsdyno.units import quote

DEFAULT_ROUNDS = 6  # the fewest for a verdict, see docs/method.md
MOST_ROUNDS = 100_000
MOST_COMBINATIONS = 10_000  # cells × points
_KEYS = ["question", "rounds", "seed", "place", "trial", "matrix", "exclude", "sweep", "reference"]


def load(path: str | FilePath, *, schema: dict[str, Any], describe: dict[str, Any]) -> Plan:
    """The plan in a file. `schema` is the agent's trial schema, `describe` its tables."""
    file = FilePath(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")  # with or without a byte order mark
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "name a plan file; ready ones are in the folder plans/"
        raise UserError(f"cannot be read: {reason}", code=Exit.PLAN, where=str(path), advice=advice) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"is not UTF-8 text (byte {error.start}); a plan is a TOML file", code=Exit.PLAN, where=str(path)
        ) from None
    return replace(parse(text, str(path), schema=schema, describe=describe), path=file)


def parse(text: str, origin: str, *, schema: dict[str, Any], describe: dict[str, Any]) -> Plan:
    """The plan in a text; `origin` is the file name in messages, its stem the plan's name."""
    plan, problems = read(text, origin, schema=schema, describe=describe)
    if problems or plan is None:
        raise PlanError(origin, problems)
    return plan


def read(
    text: str, origin: str, *, schema: dict[str, Any], describe: dict[str, Any]
) -> tuple[Plan | None, list[Problem]]:
    """As `parse`, but hands back the problems, and what the plan comes to without the wrong keys."""
    try:
        document = tomllib.loads(text)
        where = positions(text)
    except ValueError as error:  # also for a number with thousands of digits
        return None, [_syntax(str(error), text)]
    except RecursionError:
        return None, [too_deep(text)]
    assert_sound(schema)
    try:
        plan, problems = None, list(strange(document))
        if not problems:
            plan, problems = _read(document, text, origin, schema, describe)
    except RecursionError:
        return None, [too_deep(text)]
    located = [_locate(problem, where) for problem in problems]
    return plan, sorted(located, key=lambda p: (p.line, p.column))


def _read(
    document: dict[str, Any], text: str, origin: str, schema: dict[str, Any], describe: dict[str, Any]
) -> tuple[Plan | None, list[Problem]]:
    problems: list[Problem] = []
    for key in document:
        if key not in _KEYS:
            problems.append(Problem((key,), "unknown", unknown(key, _KEYS, "key") + _inside(key, schema)))
    question = _scalar(document, "question", str, "", problems)
    if "question" not in document:
        text_ = 'missing key "question": what should the numbers answer?'
        problems.append(Problem((), "missing", text_))
    elif isinstance(question, str) and not question.strip():
        problems.append(Problem(("question",), "value", "is empty: what should the numbers answer?"))
    rounds = _scalar(document, "rounds", int, DEFAULT_ROUNDS, problems)
    if rounds < 1:
        problems.append(Problem(("rounds",), "value", f"{rounds} is too small; at least 1, for a verdict 6"))
    if rounds > MOST_ROUNDS:
        problems.append(Problem(("rounds",), "value", f"{rounds} is too large; at most {MOST_ROUNDS}"))
    seed = _scalar(document, "seed", int, None, problems)
    if seed is not None and not 0 <= seed < 2**63:
        problems.append(Problem(("seed",), "value", "expected a whole number from 0 to 2^63 - 1"))
    place = _scalar(document, "place", str, "auto", problems)
    if place not in PLACES:
        problems.append(Problem(("place",), "unknown", unknown(place, PLACES, f"place {quote(place)}")))

    axes = Axes("matrix", problems).read(document["matrix"]) if "matrix" in document else ()
    given = document.get("sweep", {})
    sweep = Axes("sweep", problems).read(given, reserved=("repeat",)) if "sweep" in document else ()
    count = math.prod(len(axis.values) for axis in (*axes, *sweep))
    if count > MOST_COMBINATIONS:
        text_ = f"makes {count} cells and points; at most {MOST_COMBINATIONS}, or nobody sees them all"
        problems.append(Problem(("matrix" if axes else "sweep",), "structure", text_))
        return None, problems
    repeat = given.get("repeat") if isinstance(given, Mapping) else None
    exclusion = Exclusion(document.get("exclude", []), axes, sweep, problems)
    combinations = exclusion.of(axes, product(axes), "cell")
    settings = exclusion.of(sweep, product(sweep), "point") if sweep else []
    chosen = reference(document.get("reference", {}), axes, sweep, combinations, problems)

    trial = document.get("trial")
    if not isinstance(trial, dict):
        missing = 'missing table "[trial]": the stack and the phases to run on it'
        wrong = f"expected a table, not {quote(trial)}"
        problems.append(
            Problem((), "missing", missing) if trial is None else Problem(("trial",), "value", wrong)
        )
        return None, problems
    tables = Tables(describe)
    builder = Builder(schema, tables, trial, place)
    cells, points = builder.build(axes, combinations, sweep, settings, repeat)
    problems += builder.problems()
    plan = Plan(
        question=question,
        name=FilePath(origin).stem,
        text=text,
        rounds=rounds,
        seed=seed,
        place=place,
        axes=axes,
        sweep=sweep,
        reference=chosen,
        cells=tuple(cells),
        points=tuple(points),
        needs_device=tables.needs_device,
        schema=schema,
    )
    if len(cells) == 1 and not axes:
        plan = replace(plan, cells=(replace(cells[0], name=plan.name),))
    return plan, problems


def _scalar(document: Mapping[str, Any], key: str, kind: type, default: Any, problems: list[Problem]) -> Any:
    value = document.get(key, default)
    if value is default or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    expected = "a string" if kind is str else "a whole number"
    problems.append(Problem((key,), "value", f"expected {expected}, not {quote(value)}"))
    return default


def _inside(key: str, schema: Mapping[str, Any]) -> str:
    """A trial's key at the top of the plan is the commonest slip."""
    return f"; {key} belongs into [trial]" if key in schema.get("properties", {}) else ""


def _locate(problem: Problem, where: Mapping[Path, Position]) -> Problem:
    """Adds line and column of the nearest place that the file really has."""
    for end in range(len(problem.path), 0, -1):
        position = where.get(problem.path[:end])
        if position is not None:
            return replace(problem, line=position.line, column=position.column)
    return problem


def _syntax(message: str, text: str) -> Problem:
    found = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)", message)
    plain = re.sub(r" \(at .*\)$", "", message)
    if found and found.group(1):
        line, column = int(found.group(1)), int(found.group(2))
    else:
        line, column = text.rstrip("\n").count("\n") + 1, 1
    note = f"this is not TOML: {plain[:1].lower()}{plain[1:]} (column {column})"
    return Problem((), "syntax", note, line, column)
