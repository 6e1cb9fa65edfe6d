"""Checks a trial against the agent's JSON Schema, and brings it to base units on the way.

The schema is the only list of options there is. The general validators say that a value "is not
valid under any of the given schemas"; a person needs every problem at once, with its key, what was
expected, and the nearest valid word. So this walker knows the subset of JSON Schema 2020-12 that the
agent emits (`KEYWORDS`; tests hold the agent to it and compare the verdicts with a full validator).

Own extensions: `format` `bytes` and `seconds` accept units as people write them; `x-select` names the
key that chooses a branch of a `oneOf` (a scalar in the object's place means that key); and
`x-exactly-one` lists keys of which exactly one must be given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fsdyno.plan.problems import Path, Problem, unknown
from fsdyno.units import SIZE_FORM, TIME_FORM, parse_bytes, parse_seconds, quote, show_bytes

Schema = Mapping[str, Any]

_STRUCTURE = {"$schema", "$id", "$ref", "$defs", "oneOf", "anyOf"}
_MAPS = {"properties", "additionalProperties", "propertyNames"}
_LIMITS = {"required", "enum", "const", "minimum", "maximum", "multipleOf", "items", "minItems"}
_WORDS = {"type", "format", "pattern", "minLength", "default", "x-select", "x-exactly-one", "x-form"}
_NOTES = {"title", "description", "examples", "deprecated"}
KEYWORDS = _STRUCTURE | _MAPS | _LIMITS | _WORDS | _NOTES
"""Every keyword that the walker understands (or may ignore)."""

_RANGES = {
    "bytes": (0, 2**64 - 1),
    "uint64": (0, 2**64 - 1),
    "uint32": (0, 2**32 - 1),
    "uint16": (0, 2**16 - 1),
    "uint8": (0, 2**8 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
NAMES = {
    "object": "a table",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}


class Walker:
    """Walks values beside their schema; collects problems instead of stopping at the first."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.problems: list[Problem] = []

    def check(self, value: Any, schema: Schema | None = None, path: Path = ()) -> Any:
        """The value in base units with defaults filled in; problems go to `self.problems`."""
        schema = self.resolve(self.root if schema is None else schema)
        branches = branches_of(schema)
        if "x-select" in schema:
            return self._select(value, schema, path)
        if branches is not None:
            return self._branch(value, branches, path)
        if words_of(schema) and not _is_numeric(schema):
            return self._word(value, words_of(schema), path)
        return self._typed(value, schema, path)

    def resolve(self, schema: Schema) -> Schema:
        """Follows `$ref` and looks through "this or nothing"."""
        while True:
            if "$ref" in schema:
                target: Any = self.root
                for step in str(schema["$ref"]).removeprefix("#/").split("/"):
                    target = target[step.replace("~1", "/").replace("~0", "~")] if step else target
                schema = target
                continue
            branches = branches_of(schema)
            if branches is not None and "x-select" not in schema:
                real = [b for b in branches if b.get("type") != "null"]
                if len(real) == 1 and len(real) < len(branches):
                    schema = real[0]
                    continue
            return schema

    def find(self, path: Sequence[str | int]) -> Schema | None:
        """The schema of a place below the root, where the path alone decides it."""
        schema = self.resolve(self.root)
        for step in path:
            found = self.child(schema, step)
            if found is None:
                return None
            schema = found
        return schema

    def child(self, schema: Schema, step: str | int) -> Schema | None:
        """The schema one step below; for a choice of branches the first that has the key."""
        schema = self.resolve(schema)
        if isinstance(step, int):
            return self.resolve(schema["items"]) if "items" in schema else None
        properties = schema.get("properties", {})
        if step in properties:
            return self.resolve(properties[step])
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            return self.resolve(extra)
        for branch in branches_of(schema) or ():
            found = self.child(branch, step)
            if found is not None:
                return found
        return None

    def keys(self, schema: Schema) -> list[str]:
        """All keys that may stand in an object of this schema."""
        schema = self.resolve(schema)
        known = list(schema.get("properties", {}))
        for branch in branches_of(schema) or ():
            known += [key for key in self.keys(branch) if key not in known]
        return known

    # ---- choices --------------------------------------------------------------------------------

    def _select(self, value: Any, schema: Schema, path: Path) -> Any:
        key = str(schema["x-select"])
        branches = {}
        for branch in branches_of(schema) or ():
            resolved = self.resolve(branch)
            branches[str(self.resolve(resolved["properties"][key])["const"])] = resolved
        if not isinstance(value, Mapping):
            if not isinstance(value, str):
                return self._wrong(value, f"a table, or one of: {', '.join(branches)}", path)
            value = {key: value}
        if key not in value:
            self._add(path, "missing", f'missing key "{key}" (one of: {", ".join(branches)})')
            return dict(value)
        chosen = value[key]
        if not isinstance(chosen, str) or chosen not in branches:
            word = unknown(str(chosen), list(branches), f"{key} {quote(chosen)}")
            self._add((*path, key), "unknown", word)
            return dict(value)
        return self._object(value, branches[chosen], path, owner=chosen)

    def _branch(self, value: Any, branches: Sequence[Schema], path: Path) -> Any:
        resolved = [self.resolve(b) for b in branches]
        words: list[Any] = [w for b in resolved for w in words_of(b)]
        tags = {tag: b for b in resolved for tag in [tag_of(b)] if tag is not None}
        if len(words) and not tags and all(words_of(b) for b in resolved):
            return self._word(value, words, path)
        if tags and all(tag_of(b) is not None or words_of(b) for b in resolved):
            return self._tagged(value, tags, words, path)
        for branch in resolved:
            attempt = Walker(self.root)
            checked = attempt.check(value, branch, path)
            if not attempt.problems:
                return checked
        fitting = [b for b in resolved if _fits(value, b)]
        if len(fitting) == 1:
            return self.check(value, fitting[0], path)
        return self._wrong(value, " or ".join(self.expectation(b) for b in resolved), path)

    def _tagged(self, value: Any, tags: Mapping[str, Schema], words: Sequence[Any], path: Path) -> Any:
        if words and not isinstance(value, Mapping):
            return (
                self._word(value, [*words, *tags], path)
                if value not in tags
                else self._tag_alone(value, path)
            )
        if not isinstance(value, Mapping):
            if isinstance(value, str) and value in tags:
                return self._tag_alone(value, path)
            return self._wrong(value, f"a table with one of: {', '.join(tags)}", path)
        checked = {}
        for key, inner in value.items():
            if key in tags:
                checked[key] = self.check(inner, tags[key]["properties"][key], (*path, key))
            else:
                self._add((*path, key), "unknown", unknown(key, list(tags), "kind"))
        if not value:
            self._add(path, "missing", f"needs one of: {', '.join(tags)}")
        given = [key for key in value if key in tags]
        if len(given) > 1:
            self._add(path, "structure", f"is either {' or '.join(given)}, not both")
        return checked

    def _tag_alone(self, value: str, path: Path) -> Any:
        self._add(path, "value", f"{quote(value)} needs its own table: write {{ {value} = {{ … }} }}")
        return {}

    def _word(self, value: Any, words: Sequence[Any], path: Path) -> Any:
        if any(value == w and type(value) is type(w) for w in words):
            return value
        if isinstance(value, str):
            known = [str(w) for w in words]
            self._add(path, "unknown", unknown(value, known, f"value {quote(value)}"))
            return value
        return self._wrong(value, "one of: " + ", ".join(str(w) for w in words), path)

    # ---- plain types ----------------------------------------------------------------------------

    def _typed(self, value: Any, schema: Schema, path: Path) -> Any:
        types = types_of(schema)
        if "object" in types or (not types and "properties" in schema):
            return self._object(value, schema, path)
        if "array" in types:
            return self._array(value, schema, path)
        if "integer" in types or "number" in types:
            return self._number(value, schema, path, whole="integer" in types)
        if "boolean" in types and not isinstance(value, bool):
            return self._wrong(value, NAMES["boolean"], path)
        if "string" in types:
            if not isinstance(value, str):
                return self._wrong(value, NAMES["string"], path)
            if len(value) < schema.get("minLength", 0):
                self._add(path, "value", "is empty" if not value else f"{quote(value)} is too short")
            pattern = schema.get("pattern")
            if pattern is not None and re.search(pattern, value) is None:
                self._add(
                    path, "value", f"{quote(value)} is not {schema.get('x-form', f'of the form {pattern}')}"
                )
        return value

    def _object(self, value: Any, schema: Schema, path: Path, owner: str | None = None) -> Any:
        if not isinstance(value, Mapping):
            return self._wrong(value, NAMES["object"], path)
        properties: Mapping[str, Schema] = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        kinds: Sequence[str] = schema.get("x-exactly-one", ())
        checked: dict[str, Any] = {}
        strange = False
        for key, inner in value.items():
            if "propertyNames" in schema:
                self.check(key, schema["propertyNames"], (*path, key))
            if key in properties:
                checked[key] = self.check(inner, properties[key], (*path, key))
            elif isinstance(extra, Mapping):
                checked[key] = self.check(inner, extra, (*path, key))
            elif extra is False:
                strange = True
                what = f"key for {owner}" if owner else "key"
                self._add((*path, key), "unknown", unknown(key, list(properties), what))
            else:
                checked[key] = inner
        for key in schema.get("required", ()):
            if key not in value:
                hint = self.expectation(properties[key]) if key in properties else ""
                self._add(path, "missing", f'missing key "{key}"' + (f" ({hint})" if hint else ""))
        for key, inner in properties.items():
            if key not in value and "default" in inner:
                checked[key] = self.fill(inner)
        given = [key for key in kinds if key in value]
        if kinds and not given and not strange:
            self._add(path, "missing", f"needs one of: {', '.join(kinds)}")
        if len(given) > 1:
            self._add(path, "structure", f"is either {' or '.join(given)}, not both")
        return {key: inner for key, inner in checked.items() if inner is not None}

    def fill(self, schema: Schema) -> Any:
        """A default, with the defaults inside it."""
        probe = Walker(self.root)
        return probe.check(schema["default"], schema)

    def _array(self, value: Any, schema: Schema, path: Path) -> Any:
        if not isinstance(value, list):
            return self._wrong(value, NAMES["array"], path)
        least = schema.get("minItems", 0)
        if len(value) < least:
            self._add(path, "value", f"needs at least {least} element{'s' if least != 1 else ''}")
        items = schema.get("items", {})
        return [self.check(inner, items, (*path, i)) for i, inner in enumerate(value)]

    def _number(self, value: Any, schema: Schema, path: Path, *, whole: bool) -> Any:
        form = schema.get("format")
        if isinstance(value, str) and form in ("bytes", "seconds"):
            try:
                value = parse_bytes(value) if form == "bytes" else parse_seconds(value)
            except (ValueError, OverflowError) as wrong:
                self._add(path, "value", str(wrong))
                return 0
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        if not usable or (whole and isinstance(value, float)) or not math.isfinite(value):
            return self._wrong(value, self.expectation(schema), path)
        low, high = _RANGES.get(str(form), (-math.inf, math.inf))
        low, high = max(low, schema.get("minimum", low)), min(high, schema.get("maximum", high))
        if value < low:
            word = (
                f"{quote(value)} is negative; expected"
                if value < 0
                else f"{quote(value)} is too small; expected"
            )
            self._add(path, "value", f"{word} {self.expectation(schema)}, at least {low:g}")
        elif value > high:
            shown = high if whole and high != math.inf else f"{high:g}"
            self._add(path, "value", f"{quote(value)} is too large; at most {shown}")
        elif words_of(schema) and value not in words_of(schema):
            self._add(path, "value", f"expected one of: {self._choices(schema)}, not {quote(value)}")
        elif value % schema.get("multipleOf", value or 1):
            self._add(path, "value", f"{quote(value)} is not a multiple of {schema['multipleOf']}")
        return int(value) if whole else float(value)

    # ---- words ----------------------------------------------------------------------------------

    def _choices(self, schema: Schema) -> str:
        sizes = schema.get("format") == "bytes"
        return ", ".join(show_bytes(w) if sizes else str(w) for w in words_of(schema))

    def expectation(self, schema: Schema) -> str:
        """What may stand here, in words."""
        schema = self.resolve(schema)
        form = schema.get("format")
        if form == "bytes" and not words_of(schema):
            return SIZE_FORM
        if form == "seconds":
            return TIME_FORM
        words = words_of(schema)
        branches = branches_of(schema)
        if branches is not None:
            inner = [self.resolve(b) for b in branches]
            words = [w for b in inner for w in words_of(b)]
            tags = [t for t in map(tag_of, inner) if t is not None]
            if tags or "x-select" in schema:
                return f"a table with one of: {', '.join(tags)}" if tags else NAMES["object"]
        if words:
            return "one of: " + (self._choices(schema) or ", ".join(str(w) for w in words))
        return " or ".join(NAMES[t] for t in types_of(schema) if t != "null")

    def _wrong(self, value: Any, expected: str, path: Path) -> Any:
        self._add(path, "value", f"expected {expected}, not {_describe(value)}")
        return value

    def _add(self, path: Path, kind: str, message: str) -> None:
        self.problems.append(Problem(path, kind, message))


def branches_of(schema: Schema) -> Sequence[Schema] | None:
    """The alternatives of a schema, if it is a choice."""
    found: Sequence[Schema] | None = schema.get("oneOf", schema.get("anyOf"))
    return found


def words_of(schema: Schema) -> list[Any]:
    """The fixed values of an `enum` or `const`."""
    if "const" in schema:
        return [schema["const"]]
    return list(schema.get("enum", ()))


def tag_of(schema: Schema) -> str | None:
    """The one key of a branch such as `{"tree": …}` (an enum variant with contents)."""
    required = schema.get("required", ())
    if len(required) == 1 and set(schema.get("properties", {})) == set(required):
        return str(required[0])
    return None


def types_of(schema: Schema) -> list[str]:
    """The `type` keyword as a list."""
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _is_numeric(schema: Schema) -> bool:
    return any(t in ("integer", "number") for t in types_of(schema))


def _fits(value: Any, schema: Schema) -> bool:
    types = types_of(schema)
    names = {
        "object": isinstance(value, Mapping),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
    }
    return any(names.get(t, False) for t in types)


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return quote(value)
