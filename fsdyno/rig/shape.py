"""Whether what the agent says has the shape that its own schema promises.

Everything behind the rig (store, report, screen) reads survey, tables and events as the schema describes
them. An agent that says otherwise is broken, and that has to be known here, with the place, and not where
a missing key happens to be needed. The plan's walker talks to people about what they wrote and converts
units; this one judges a machine's words, quickly, one line after another.

Known is the subset of JSON Schema 2020-12 that the agent emits for what it says; other words are not
judged. Nor are kinds of events that the schema does not have, and further fields: a newer agent may say
more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], str | None]
"""None if a value fits; else the first flaw, beginning with its place."""

_LARGEST = {"uint64": 2**63 - 1, "int64": 2**63 - 1, "bytes": 2**63 - 1}
"""Whole numbers above this fit no store. Smaller formats are within."""


class Shape:
    """A schema, ready to judge values. Raises `ValueError` for what is no schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._known: dict[str, Check] = {}
        try:
            self._check = self._compile(schema)
            for name, inner in schema.get("$defs", {}).items():
                self._known[name] = self._compile(inner)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no schema: {error}") from None

    def flaw(self, value: Any) -> str | None:
        """What is wrong with a value and where; None if nothing is."""
        return self._check(value)

    def _compile(self, schema: Any) -> Check:
        if not isinstance(schema, Mapping):
            return lambda value: None
        checks: list[Check] = []
        if "type" in schema:
            checks.append(_type(schema["type"]))
        if "const" in schema:
            checks.append(_one_of([schema["const"]]))
        if "enum" in schema:
            checks.append(_one_of(schema["enum"]))
        largest = _LARGEST.get(str(schema.get("format")))
        if "minimum" in schema or largest:
            checks.append(_range(schema.get("minimum", -(2**63)), largest))
        if "$ref" in schema:
            checks.append(self._reference(str(schema["$ref"])))
        if "properties" in schema or "required" in schema or "additionalProperties" in schema:
            checks.append(self._object(schema))
        if "items" in schema or "prefixItems" in schema:
            checks.append(self._array(schema))
        for word in ("oneOf", "anyOf"):
            if word in schema:
                checks.append(self._choice(schema[word]))
        if len(checks) == 1:
            return checks[0]

        def all_of(value: Any) -> str | None:
            for check in checks:
                if flaw := check(value):
                    return flaw
            return None

        return all_of

    def _reference(self, reference: str) -> Check:
        """Looked up when a value is judged, since definitions may use each other."""
        name = reference.rpartition("/")[2]

        def follow(value: Any) -> str | None:
            check = self._known.get(name)
            return check(value) if check else None

        return follow

    def _object(self, schema: Mapping[str, Any]) -> Check:
        known = {key: self._compile(inner) for key, inner in schema.get("properties", {}).items()}
        required = frozenset(schema.get("required", ()))
        others = schema.get("additionalProperties")
        other = self._compile(others) if isinstance(others, Mapping) else None

        def check(value: Any) -> str | None:
            if not isinstance(value, dict):
                return None
            for key in required:
                if key not in value:
                    return f": `{key}` is missing"
            for key, inner in value.items():
                judge = known.get(key, other)
                if judge and (flaw := judge(inner)):
                    return f".{key}{flaw}"
            return None

        return check

    def _array(self, schema: Mapping[str, Any]) -> Check:
        first = [self._compile(inner) for inner in schema.get("prefixItems", ())]
        rest = self._compile(schema.get("items"))
        fewest = int(schema.get("minItems", 0))

        def check(value: Any) -> str | None:
            if not isinstance(value, list):
                return None
            if len(value) < fewest:
                return f": has {len(value)} of {fewest} elements"
            for index, inner in enumerate(value):
                judge = first[index] if index < len(first) else rest
                if flaw := judge(inner):
                    return f"[{index}]{flaw}"
            return None

        return check

    def _choice(self, branches: list[Any]) -> Check:
        """One branch must fit. Where a word names the branch (`event`), only that one is asked."""
        compiled = [self._compile(branch) for branch in branches]
        named: dict[str, Check] = {}
        for branch, check in zip(branches, compiled, strict=True):
            for inner in (branch.get("properties") or {}).values():
                if "const" in inner:
                    named[inner["const"]] = check
        if named and len(named) == len(branches):
            [key] = {k for b in branches for k, inner in b["properties"].items() if "const" in inner}

            def by_name(value: Any) -> str | None:
                name = value.get(key) if isinstance(value, dict) else None
                check = named.get(name) if isinstance(name, str) else None
                return check(value) if check else None

            return by_name

        def any_of(value: Any) -> str | None:
            flaws = [check(value) for check in compiled]
            if None in flaws:
                return None
            # The flaw that lies deepest belongs to the form that was meant.
            return max((flaw for flaw in flaws if flaw), key=lambda flaw: flaw.partition(":")[0].count("."))

        return any_of


_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _type(names: str | list[str]) -> Check:
    wanted = [names] if isinstance(names, str) else list(names)
    allowed = tuple(kind for name in wanted for kind in _KINDS.get(name, (object,)))
    expected = " or ".join(wanted)
    boolean = "boolean" in wanted

    def check(value: Any) -> str | None:
        fits = isinstance(value, allowed) and (boolean or not isinstance(value, bool))
        if fits and not (isinstance(value, float) and not math.isfinite(value)):
            return None
        return f": {_short(value)} is no {expected}"

    return check


def _one_of(values: list[Any]) -> Check:
    return lambda value: None if value in values else f": {_short(value)} is not known"


def _range(smallest: float, largest: float | None) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, int | float) and (value < smallest or (largest is not None and value > largest)):
            return f": {_short(value)} is out of range"
        return None

    return check


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
