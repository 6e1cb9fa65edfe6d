"""Paths into a trial, as plans write them: `stack.devices.0.file.size`, `phases.create.threads`.

A phase is named by its name, and a key of it may leave out the tables in between: what `threads`
means follows from the phase's kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fsdyno.plan.problems import Path, unknown
from fsdyno.plan.schema import Schema, Walker, branches_of, tag_of


class UnplacedError(Exception):
    """A path that leads nowhere; `kind` and message as in `Problem`."""

    def __init__(self, message: str, kind: str = "unknown") -> None:
        super().__init__(message)
        self.kind = kind


def phase_label(phase: Any, schema: Schema) -> str | None:
    """A phase's name in results: the given one, or its kind."""
    if not isinstance(phase, Mapping):
        return None
    if isinstance(phase.get("name"), str):
        return str(phase["name"])
    return own_kind(phase, schema)


def own_kind(phase: Mapping[str, Any], schema: Schema) -> str | None:
    """The key that says what a phase does; also one that this agent does not know (yet)."""
    kinds = schema.get("x-exactly-one", ())
    for key in phase:
        if key in kinds:
            return str(key)
    strange = [key for key in phase if key not in schema.get("properties", {})]
    return strange[0] if strange else None


def place(walker: Walker, trial: Mapping[str, Any], steps: Sequence[str]) -> Path:
    """The exact path in the trial that the written steps mean. Raises `UnplacedError`."""
    root = walker.resolve(walker.root)
    if steps[0] == "phases" and len(steps) > 1:
        return _in_phase(walker, trial, steps)
    if steps[0] not in walker.keys(root):
        raise UnplacedError(unknown(steps[0], walker.keys(root), f'key "{steps[0]}" in [trial]'))
    return _walk(walker, root, trial, (), steps)


def _walk(walker: Walker, schema: Schema, value: Any, done: Path, steps: Sequence[str]) -> Path:
    for step in steps:
        resolved = walker.resolve(schema)
        if "items" in resolved:
            elements = value if isinstance(value, list) else []
            if not step.isdecimal() or int(step) >= len(elements):
                raise UnplacedError(
                    f'no element "{step}": the list has {len(elements)}, counted from 0', "structure"
                )
            value, key = elements[int(step)], int(step)
            done = (*done, key)
            schema = resolved["items"]
            continue
        inner = walker.child(resolved, step)
        if inner is None:
            if _is_open(resolved):
                return (*done, *steps[len(done) :])
            raise UnplacedError(unknown(step, walker.keys(resolved), f'key "{step}"'))
        value = value.get(step) if isinstance(value, Mapping) else None
        done, schema = (*done, step), inner
    return done


def _is_open(schema: Schema) -> bool:
    return branches_of(schema) is None and schema.get("additionalProperties", True) is True


def _in_phase(walker: Walker, trial: Mapping[str, Any], steps: Sequence[str]) -> Path:
    schema = walker.find(["phases", 0])
    assert schema is not None, "the trial schema has phases"
    phases = trial.get("phases")
    phases = phases if isinstance(phases, list) else []
    labels = [phase_label(phase, schema) for phase in phases]
    index = _index(steps[1], labels)
    done: Path = ("phases", index)
    phase, rest = phases[index], list(steps[2:])
    if not rest:
        return done
    own = own_kind(phase, schema) if isinstance(phase, Mapping) else None
    kinds = schema.get("x-exactly-one", ())
    level = [key for key in schema["properties"] if key not in kinds]
    if rest[0] in level or rest[0] == own:
        return (*done, *_walk(walker, schema, phase, (), rest))
    if own is None:
        raise UnplacedError(unknown(rest[0], level, f'key "{rest[0]}"'))
    inner = walker.child(schema, own)
    table = phase[own]
    if inner is None:  # a kind that this agent does not know is told once, where it stands
        return (*done, own, *rest)
    done = (*done, own)
    variants = {tag_of(walker.resolve(b)) for b in branches_of(inner) or ()} - {None}
    if variants:
        given = [key for key in table if key in variants] if isinstance(table, Mapping) else []
        if rest[0] in variants:
            return (*done, *_walk(walker, inner, table, (), rest))
        if not given:
            strange = next(iter(table)) if isinstance(table, Mapping) and table else None
            if strange is None:
                raise UnplacedError(unknown(rest[0], level, f'key "{rest[0]}"'))
            return (*done, strange, *rest)
        variant = walker.child(inner, given[0])
        assert variant is not None, "a given variant has a schema"
        done, inner, table = (*done, given[0]), variant, table[given[0]]
    known = walker.keys(inner)
    if rest[0] not in known:
        raise UnplacedError(unknown(rest[0], [*known, *level], f'key "{rest[0]}"'))
    return (*done, *_walk(walker, inner, table, (), rest))


def _index(word: str, labels: Sequence[str | None]) -> int:
    named = [i for i, label in enumerate(labels) if label == word]
    if len(named) == 1:
        return named[0]
    if len(named) > 1:
        raise UnplacedError(
            f'{len(named)} phases are called "{word}"; give each a name of its own', "structure"
        )
    if word.isdecimal() and int(word) < len(labels):
        return int(word)
    raise UnplacedError(unknown(word, [label for label in labels if label], f'phase "{word}"'))


def merge(walker: Walker, tree: Any, path: Path, value: Any, schema: Schema) -> Any:
    """The tree with a value set at a path. Tables are merged, anything else replaces.

    Where a table is chosen by one of its keys (`x-select`), a word in its place means that key, so
    that setting the word keeps the other keys.
    """
    schema = walker.resolve(schema)
    select = schema.get("x-select")
    if select is not None:
        if isinstance(tree, str):
            tree = {select: tree}
        if not path and isinstance(value, str) and isinstance(tree, Mapping):
            value = {select: value}
    if path:
        key = path[0]
        inner = walker.child(schema, key) or {}
        if isinstance(key, int) and isinstance(tree, list):
            changed = merge(walker, tree[key], path[1:], value, inner)
            return [changed if i == key else old for i, old in enumerate(tree)]
        kept = dict(tree) if isinstance(tree, Mapping) else {}
        kept[str(key)] = merge(walker, kept.get(str(key)), path[1:], value, inner)
        return kept
    if isinstance(tree, Mapping) and isinstance(value, Mapping):
        merged = dict(tree)
        for key, inner_value in value.items():
            inner = walker.child(schema, key) or {}
            merged[key] = merge(walker, tree.get(key), (), inner_value, inner)
        return merged
    return value
