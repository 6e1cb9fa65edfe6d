"""What was measured, in two lines: the numbers with their interval, and on what rig."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from fsdyno.audit.evidence.model import Seen
from fsdyno.audit.evidence.search import Effect
from fsdyno.printing import visible
from fsdyno.report.numbers import ratio_interval, scale_for, three_digits, times
from fsdyno.stats import ENOUGH_ROUNDS
from fsdyno.stats.ratio import Ratio
from fsdyno.store import Cell
from fsdyno.store.stood import GUEST
from fsdyno.units import show_bytes

WIDTH = 78
_LINES = 2
_LONGEST = 24  # of a name that somebody gave
_FIXED = "\N{NO-BREAK SPACE}"


def text(effect: Effect, kind: str | None) -> tuple[str, ...]:
    """At most two lines, for a stack with this type of file system. What does not fit is left out, the least
    telling first, and stays in `data`; never that another type was measured."""
    wrong, right = _values(effect)
    what = f"measured: {wrong} {effect.shown.words} {_side(effect, effect.cell)}, "
    what += f"{right} {_side(effect, effect.other)}"
    size = f"{_size(effect)}, {_rounds(effect)}"
    rig = {
        "campaign": f"campaign {_cut(effect.info.id[:8])}",
        "stack": _stack(effect.cell),
        "type": _cut(effect.type),
        "place": _place(effect),
        "kernel": f"Linux {_cut(kernel.split('-')[0])}" if (kernel := _kernel(effect)) else "",
        "doubted": f"{effect.doubted} doubted" if effect.doubted else "",
    }
    lines: list[str] = []
    shorter = (
        ("place", rig["place"]),
        ("kernel", ""),
        ("type", "" if effect.type == kind else rig["type"]),
        ("stack", rig["stack"].partition(" on ")[0]),
        ("stack", rig["stack"].partition(" of ")[0]),
        ("campaign", rig["campaign"].removeprefix("campaign ")),
        ("stack", ""),
    )
    for key, words in shorter:
        rig[key] = words
        told = ", ".join(words for words in rig.values() if words)
        whole = visible(f"{what} ({size}; {told})").replace("\n", " ").replace("\t", " ")
        lines = [line.replace(_FIXED, " ") for line in wrap(whole, WIDTH, break_on_hyphens=False)]
        if len(lines) <= _LINES:
            return tuple(lines)
    return (*lines[: _LINES - 1], f"{lines[_LINES - 1][: WIDTH - 1]}…")


def data(effect: Effect) -> dict[str, Any]:
    """The same for programs; numbers are in `unit`, and of a ratio without one."""
    size, info = effect.size, effect.info
    return {
        "measured": True,
        "plan": effect.evidence.plan,
        "campaign": info.id,
        "phase": effect.phase,
        "metric": effect.shown.metric,
        "unit": effect.unit,
        "wrong": effect.wrong,
        "right": effect.right,
        "effect": _name(effect),
        "value": size.value,
        "low": size.low,
        "high": size.high,
        "confidence": size.confidence,
        "rounds": size.n,
        "pilot": size.n < ENOUGH_ROUNDS,
        "doubted": effect.doubted,
        "cells": [effect.cell.name, effect.other.name],
        "filesystem": effect.type or None,
        "stack": _stack(effect.cell),
        "rig": info.where.get("rig"),
        "place": effect.trial.where.get("place"),
        "emulated": effect.trial.emulated,
        "kernel": _kernel(effect),
    }


def _values(effect: Effect) -> tuple[str, str]:
    """Both numbers in one scale. Words follow that name what is counted."""
    if effect.unit in ("1", "1/s"):
        return three_digits(effect.wrong), three_digits(effect.right)
    scale = scale_for((effect.wrong, effect.right), effect.unit)
    return scale.full(effect.wrong), scale.full(effect.right)


def _side(effect: Effect, cell: Cell) -> str:
    words = effect.evidence.wrong if cell is effect.cell else effect.evidence.right
    if not effect.evidence.named:
        return words
    return words.format(show_bytes(Seen(cell.spec, ()).setting(effect.evidence.named)))


def _name(effect: Effect) -> str:
    return "ratio" if isinstance(effect.size, Ratio) else "difference"


def _size(effect: Effect) -> str:
    """`4.00× [3.80, 4.21]`, or a difference with its sign."""
    size = effect.size
    if isinstance(size, Ratio):
        value, spread = times(size), ratio_interval(size)
    else:
        value = f"{'+' if size.value > 0 else ''}{three_digits(size.value)}"
        known = size.low is not None and size.high is not None
        spread = f"[{three_digits(size.low or 0)}, {three_digits(size.high or 0)}]" if known else "–"
    return f"{value} {spread.replace(' ', _FIXED)}".removesuffix(" –")


def _rounds(effect: Effect) -> str:
    rounds = f"{effect.size.n} round{'' if effect.size.n == 1 else 's'}"
    return f"pilot of {rounds}" if effect.size.n < ENOUGH_ROUNDS else rounds


def _stack(cell: Cell) -> str:
    """`RAID 5 of 5 × 64 KiB on files`, `a file`, `a disk`, `a directory`."""
    stack = cell.spec.get("stack") or {}
    devices = stack.get("devices") or []
    if not devices:
        return "a directory" if stack.get("directory") else ""
    files = any("file" in device for device in devices)
    count = sum(int((device.get("file") or {}).get("count", 1)) for device in devices)
    array = stack.get("array")
    if not array:
        return ("a file" if files else "a disk") if count == 1 else f"{count} {'files' if files else 'disks'}"
    members = count - int(array.get("spares") or 0)
    chunk = f" × {show_bytes(array['chunk'])}" if array.get("chunk") else ""
    return f"RAID {array.get('level')} of {members}{chunk} on {'files' if files else 'disks'}"


def _place(effect: Effect) -> str:
    where = effect.trial.where
    rig = effect.info.where.get("rig")
    name = _cut(str(rig)) if rig else "an unknown rig"
    if where.get("place") != GUEST:
        return name
    return f"{'emulated ' if effect.trial.emulated else ''}guest of {name}"


def _kernel(effect: Effect) -> str:
    return str(effect.trial.where.get("kernel") or "")


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
