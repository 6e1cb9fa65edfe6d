"""Whether the agent's schema of a trial is one that plans can be read by.

The walker trusts the schema it walks. A damaged one, of an agent that is broken or of another version,
has to be known before that, as the agent's fault and with its place, and not where a key is missed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from fsdyno.errors import Exit, UserError
from fsdyno.plan.schema import NAMES, Walker, branches_of, types_of, words_of

_TEXTS = ("format", "pattern", "x-select", "x-form")
_NUMBERS = ("minimum", "maximum", "multipleOf", "minLength", "minItems")
_LISTS_OF_TEXT = ("required", "x-exactly-one")


def assert_sound(schema: Any) -> None:
    """Raises `UserError` with `Exit.AGENT` if plans cannot be read by this schema."""
    flaw = _Check(schema).flaw(schema, "trial", ()) or _parts(schema)
    if flaw:
        raise UserError(
            f"the agent's schema of a trial is damaged: {flaw}",
            code=Exit.AGENT,
            advice="build both halves from one checkout: make agent",
        )


class _Check:
    def __init__(self, root: Any) -> None:
        self.root = root

    def flaw(self, schema: Any, at: str, inside: tuple[str, ...]) -> str | None:
        """The first flaw of a schema with its place; `inside` are the references on the way to it."""
        if not isinstance(schema, Mapping):
            return f"{at} is no object"
        if "$ref" in schema:
            name = schema["$ref"]
            if name in inside:
                return f"{at} refers to itself"
            target = self.target(name)
            return f"{at} refers to nothing" if target is None else self.flaw(target, at, (*inside, name))
        return _words(schema, at) or self._inner(schema, at, inside)

    def target(self, name: Any) -> Any:
        """What a reference names; None if there is no such thing."""
        found = self.root
        for step in str(name).removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        return found

    def _inner(self, schema: Mapping[str, Any], at: str, inside: tuple[str, ...]) -> str | None:
        properties = schema.get("properties", {})
        branches = branches_of(schema)
        if not isinstance(properties, Mapping):
            return f"{at}: properties is no object"
        if branches is not None and (not isinstance(branches, list) or not branches):
            return f"{at}: a choice of nothing"
        parts = [(f"{at}.{key}", inner) for key, inner in properties.items()]
        parts += [(f"{at} ({n})", branch) for n, branch in enumerate(branches or (), 1)]
        parts += [(f"{at}[]", schema["items"])] if "items" in schema else []
        for word in ("additionalProperties", "propertyNames"):
            if not isinstance(schema.get(word, True), bool):
                parts.append((f"{at}: {word}", schema[word]))
        for place, inner in parts:
            if found := self.flaw(inner, place, inside):
                return found
        return self._select(schema, at, branches or ()) if "x-select" in schema else None

    def _select(self, schema: Mapping[str, Any], at: str, branches: Any) -> str | None:
        for branch in branches:
            key = self._resolved(branch).get("properties", {}).get(schema["x-select"], {})
            if not isinstance(self._resolved(key).get("const"), str):
                return f"{at}: a branch has no fixed {schema['x-select']}"
        return None if branches else f"{at}: a choice of nothing"

    def _resolved(self, schema: Any) -> Any:
        while "$ref" in schema:
            schema = self.target(schema["$ref"])
        return schema


def _words(schema: Mapping[str, Any], at: str) -> str | None:
    """A flaw in the words that stand beside each other in one schema."""
    for word in _TEXTS:
        if not isinstance(schema.get(word, ""), str):
            return f"{at}: {word} is no text"
    for word in _NUMBERS:
        number = schema.get(word, 1)
        if isinstance(number, bool) or not isinstance(number, int | float):
            return f"{at}: {word} is no number"
    for word in (*_LISTS_OF_TEXT, "enum"):
        given = schema.get(word, [])
        if not isinstance(given, list) or (word != "enum" and not all(isinstance(w, str) for w in given)):
            return f"{at}: {word} is no list of words"
    kinds = schema.get("type", [])
    if not isinstance(kinds, str | list) or any(
        not isinstance(kind, str) or kind not in NAMES for kind in types_of(schema)
    ):
        return f"{at}: unknown type"
    if not schema.keys() & {"type", "oneOf", "anyOf", "const", "enum", "pattern"}:
        return f"{at} says nothing"
    if "array" in types_of(schema) and "items" not in schema:
        return f"{at}: a list of anything"
    if any(
        isinstance(word, float) and not isfinite(word) for word in (schema.get("default"), *words_of(schema))
    ):
        return f"{at}: a number that is none"
    if schema.get("format") == "bytes" and not all(type(word) is int for word in words_of(schema)):
        return f"{at}: a size is no whole number"
    if schema.get("multipleOf", 1) <= 0:
        return f"{at}: multipleOf is not above 0"
    try:
        re.compile(schema.get("pattern", ""))
    except re.error:
        return f"{at}: pattern is no regular expression"
    return None


_USED = {
    (): ("stack", "phases", "timeout"),
    ("phases", 0): ("name", "workload", "mkfs"),
    ("stack",): ("devices", "directory"),
}
"""What plans are read by, beside the schema: keys that must be known at these places."""


def _parts(schema: Any) -> str | None:
    walker = Walker(schema)
    for path, keys in _USED.items():
        found = walker.find(path)
        for key in keys:
            if found is None or key not in found.get("properties", {}):
                return f"it knows no `{key}` in {'.'.join(map(str, ('trial', *path)))}"
    return None
