"""Records of stacks as files: written for somebody else, and read from anybody.

A record that was sent is what its sender made it, so everything that judges and draws relies on is
checked here, at the door, and a flaw is told with its file and key. The form is the agent's own schema;
what that leaves open (kinds of facts, order of layers, names) is in this file.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fsdyno.errors import Exit, UserError, unwritten
from fsdyno.lines import clean
from fsdyno.rig.shape import Shape

VERSION = 1
"""The form of records that is known here (`RECORD` of the agent's types)."""

MARK = "fsdyno_record"
LARGEST = 8 << 20
"""Bytes of a file that is read: a stack of 64 disks has less than 1 MiB, and one of `MOST` about 4."""

MOST = 4096
"""Layers in all, as the agent reads them."""

DEEPEST = 64
"""Layers on top of each other. The kernel's own limits are lower."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:!+-]{0,127}\Z")
# A path below /dev that leads nowhere else, of the characters that udev and libdevmapper leave as they are;
# they write any other as \xNN. Commands quote nodes, but comments name them too, and not every shell in which
# these are pasted knows comments.
_NODE = re.compile(r"/dev(/(?!\.\.?(/|\Z))[A-Za-z0-9._:@%+=,!#\\-]{1,255}){1,8}\Z")

_NUMBERS = (
    *("alignment_offset", "chunk", "degraded", "discard_granularity", "discard_max_bytes", "extent"),
    *("logical_block_size", "max_sectors_kb", "members", "minimum_io_size", "nr_requests"),
    *("optimal_io_size", "physical_block_size", "pv_start", "read_ahead_kb", "survives"),
)
_TEXTS = (
    *("array_state", "group", "layout", "level", "model", "pv_group"),
    *("scheduler", "sync_action", "table", "volume", "write_cache"),
)


def load(path: Path, schema: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | None:
    """The saved record that a file is, by its content; None if it is part of a live stack. `schema` is the
    agent's, asked for a record only. Raises `UserError` for what cannot be relied on, and for a file that may
    have been one: by its name, or its beginning.
    """
    if not _is_file(path) or not (path.suffix == ".json" or _begins_as_one(path)):
        return None
    record = _parsed(path)
    return _relied_on(record, str(path), schema) if MARK in record else None


def load_piped(schema: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The record on standard input. Raises `UserError`, also for what is none."""
    where, again = "standard input", "such as: fsdyno audit PATH --save - | fsdyno audit -"
    try:
        if os.isatty(0):
            raise _refused(where, "is a terminal, where no record comes from", again)
        with open(0, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _refused(where, f"cannot be read: {error.strerror or error}", again) from None
    record = _object(data, where, again)
    if MARK not in record:
        raise _refused(where, "is no record of a stack", again)
    return _relied_on(record, where, schema)


def _relied_on(record: dict[str, Any], where: str, schema: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    if flaw := flaw_of(record, schema()) or _commands(record):
        raise _refused(where, flaw, "let its owner save it again: fsdyno audit PATH --save FILE")
    return record


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the agent says what is wrong with it
        return False


def _begins_as_one(path: Path) -> bool:
    """Whether a file is an object of JSON, as far as its first byte tells, and has the mark. What may not be
    read is part of a live stack, as anything else that is no record."""
    try:
        with path.open("rb") as file:
            begin = file.read(64)
            return begin.removeprefix(BOM_UTF8).lstrip()[:1] == b"{" and (
                f'"{MARK}"'.encode() in begin + file.read(LARGEST)
            )
    except OSError:
        return False


def _commands(record: Mapping[str, Any]) -> str | None:
    """Commands of a record are pasted into shells: one line each, with nothing that a terminal obeys."""
    commands = (record.get("filesystem") or {}).get("commands") or {}
    for name, command in commands.items():
        if clean(command) != command:
            return f"filesystem.commands.{name}: has characters that a terminal would obey"
    return None


def flaw_of(record: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """What is wrong with a record, beginning with its place; None if nothing is."""
    version = record.get(MARK)
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        return f"is a record of form {version}, this fsdyno knows form {VERSION}; take a newer fsdyno"
    if version != VERSION:
        return f"`{MARK}` is not {VERSION}"
    if flaw := Shape(schema).flaw(record):
        return f"`{flaw.lstrip('.')}`" if ":" not in flaw else _placed(flaw)
    return flaw_beyond_schema(record)


def flaw_beyond_schema(record: Mapping[str, Any]) -> str | None:
    """What is wrong with a record that is of the schema's shape; None if nothing is."""
    flaws = (f"layers[{n}]{flaw}" for n, layer in enumerate(record["layers"]) if (flaw := _layer(layer)))
    return _order(record["layers"]) or next(flaws, None) or _stripes(record.get("striped") or ())


def _placed(flaw: str) -> str:
    place, _, what = flaw.partition(": ")
    return f"{place.lstrip('.')}: {what}" if place else what


def _order(layers: list[dict[str, Any]]) -> str | None:
    """Each layer has a name of its own and lies on later ones, so that every way down ends."""
    if len(layers) > MOST:
        return f"layers: has {len(layers)}, and no record has more than {MOST}"
    places: dict[str, int] = {}
    for n, layer in enumerate(layers):
        if places.setdefault(layer["name"], n) != n:
            return f"layers[{n}].name: {layer['name']!r} is there already"
    depth = dict.fromkeys(places, 1)
    for n, layer in enumerate(layers):
        for key, on in _lower(layer):
            if places.get(on, n + 1) <= n:
                return f"layers[{n}].{key}: {layer['name']!r} lies on {on!r}, which is not below it"
            if on in depth:
                depth[on] = max(depth[on], depth[layer["name"]] + 1)
                if depth[on] > DEEPEST:
                    return f"layers[{n}]: more than {DEEPEST} layers lie on top of each other"
    return None


def _stripes(striped: Sequence[Mapping[str, Any]]) -> str | None:
    for n, found in enumerate(striped):
        for key in ("chunk", "data_disks", "stripe"):
            if found[key] < 1:
                return f"striped[{n}].{key}: {found[key]} is out of range"
    return None


def _lower(layer: Mapping[str, Any]) -> list[tuple[str, str]]:
    pieces = [(f"below[{n}].on", piece["on"]) for n, piece in enumerate(layer["below"])]
    return pieces + [("somewhere_on", name) for name in layer.get("somewhere_on") or ()]


def _layer(layer: Mapping[str, Any]) -> str | None:
    if not _NAME.match(layer["name"]):
        return ".name: is no name of a block device"
    if not _NODE.match(layer["node"]):
        return ".node: is no path of a block device"
    for key, on in _lower(layer):
        if not _NAME.match(on):
            return f".{key}: is no name of a block device"
    for group in ("queue", "facts"):
        for name, value in layer[group].items():
            if flaw := _fact(name, value):
                return f".{group}.{name}: {flaw}"
    return None


def _fact(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if name in _NUMBERS and (not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**64):
        return "is no number"
    if name in _TEXTS and not isinstance(value, str):
        return "is no text"
    if name == "slots":
        return _slots(value)
    return None


def _slots(value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(slot, dict) for slot in value):
        return "is no list of members"
    kinds = {"device": str, "slot": int, "state": str, "data_offset": int}
    for n, slot in enumerate(value):
        for key, kind in kinds.items():
            if slot.get(key) is not None and not isinstance(slot[key], kind):
                return f"the {key} of member {n} is no {'number' if kind is int else 'text'}"
    return None


def _parsed(path: Path) -> dict[str, Any]:
    """A JSON file's object; empty if it is another kind of JSON."""
    elsewhere = "to audit the stack that the file itself lies on, name its folder"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _refused(str(path), f"cannot be read: {error.strerror or error}", elsewhere) from None
    return _object(data, str(path), elsewhere)


def _object(data: bytes, where: str, elsewhere: str) -> dict[str, Any]:
    """The object that JSON is; empty if it is another kind of JSON. `elsewhere`: what to do if it is none."""
    if len(data) > LARGEST:
        raise _refused(where, f"is larger than {LARGEST >> 20} MiB, which no record is", elsewhere)
    try:
        parsed = json.loads(data, parse_constant=_no_number)
        json.dumps(parsed, ensure_ascii=False).encode()  # escapes may spell halves of characters
    except (ValueError, RecursionError) as error:
        what = "too deep" if isinstance(error, RecursionError) else str(error)
        raise _refused(where, f"is no whole JSON: {what}", elsewhere) from None
    return parsed if isinstance(parsed, dict) else {}


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _refused(where: str, message: str, advice: str | None) -> UserError:
    return UserError(message, code=Exit.CANNOT, where=where, advice=advice)


def text_of(record: Mapping[str, Any]) -> str:
    """A record as it is written."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def save(record: Mapping[str, Any], path: Path) -> None:
    """Writes a record whole or not at all. Replaces another record, and nothing else."""
    if path.exists() and not _replaceable(path):
        raise UserError(
            "is there, and no record of a stack",
            code=Exit.CANNOT,
            where=str(path),
            advice="name another file, or remove this one",
        )
    try:
        _replace(path, text_of(record))
    except OSError as error:
        raise unwritten(path, error) from None


def _replaceable(path: Path) -> bool:
    try:
        return path.is_file() and MARK in _parsed(path)
    except UserError:
        return False


def _replace(path: Path, text: str) -> None:
    target = path.resolve()  # a link stays one
    descriptor, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(made).chmod(0o666 & ~umask)
        Path(made).replace(target)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
