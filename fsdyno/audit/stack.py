"""A recorded stack as rules read it: the agent's record (`StackRecord` of its schema), with names.

Sizes are bytes. What is None was not recorded: it does not exist, or could not be read (see `unseen`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Piece:
    """Part of a layer: from byte `start` on, `size` bytes, it lies on layer `on` from `offset` on."""

    start: int
    size: int
    on: str
    offset: int
    chunk: int | None = None


@dataclass(frozen=True)
class Layer:
    """A block device; `kind` is disk, partition, loop, md, lvm, crypt, multipath, mapper or unknown."""

    name: str
    node: str
    kind: str
    size: int
    queue: Mapping[str, Any]
    facts: Mapping[str, Any]
    below: tuple[Piece, ...] = ()
    somewhere_on: tuple[str, ...] = ()

    @property
    def lower(self) -> tuple[str, ...]:
        """Names of what it lies on, each once."""
        return tuple(dict.fromkeys([*(piece.on for piece in self.below), *self.somewhere_on]))

    @property
    def offset(self) -> int | None:
        """Where its first byte lies on the layer below, if it lies on one only."""
        return self.below[0].offset if len({piece.on for piece in self.below}) == 1 else None


@dataclass(frozen=True)
class StripedPiece:
    """Part of the uppermost layer on a striped one; `off` bytes from the start of a stripe, `off_chunk` from
    that of a chunk (None in older records)."""

    start: int
    size: int
    offset: int
    off: int
    off_chunk: int | None


@dataclass(frozen=True)
class Step:
    """Bytes into a stripe that a layer adds by its own start; `pv`: by where LVM's data begins on it."""

    layer: str
    off: int
    pv: bool


@dataclass(frozen=True)
class Striped:
    """How the uppermost layer lies on the striped layer `on`; `steps`: what each one between adds;
    `read_ahead`: what keeps all members busy (None in older records)."""

    on: str
    chunk: int
    data_disks: int
    stripe: int
    read_ahead: int | None
    pieces: tuple[StripedPiece, ...]
    steps: tuple[Step, ...]

    @property
    def off(self) -> int:
        """Bytes into a stripe of the first piece that is off; 0 if none is."""
        return next((piece.off for piece in self.pieces if piece.off), 0)


@dataclass(frozen=True)
class Mount:
    """Where and how it is mounted; `options` as the kernel shows them."""

    point: str
    source: str
    fstype: str
    options: tuple[str, ...]
    bdi: str
    read_ahead: int | None


@dataclass(frozen=True)
class Pieces:
    """Free space by pieces, as far as it was seen (`whole`: all of it)."""

    count: int
    bytes: int
    largest: int
    in_large: int
    whole: bool


@dataclass(frozen=True)
class Space:
    """How full it is."""

    size: int
    free: int
    available: int
    inodes: int
    inodes_free: int
    pieces: Pieces | None


@dataclass(frozen=True)
class FileSystem:
    """The file system. `upkeep` and `superblock` as the record has them; `barriers` None if unknown."""

    type: str
    known: bool
    on: tuple[str, ...]
    superblock: Mapping[str, Any] | None
    upkeep: Mapping[str, int]
    barriers: bool | None
    barriers_off_by: str | None
    geometry: Mapping[str, int] | None
    expected_geometry: Mapping[str, int] | None
    space: Space | None
    commands: Mapping[str, str]


@dataclass(frozen=True)
class Unseen:
    """What could not be read, of which layer, why, and what would change it."""

    what: str
    layer: str | None
    message: str
    advice: str | None


@dataclass(frozen=True)
class Stack:
    """A recorded stack."""

    target: str
    taken: int
    host: Mapping[str, Any]
    mount: Mount | None
    filesystem: FileSystem | None
    layers: tuple[Layer, ...]
    striped: tuple[Striped, ...]
    timers: tuple[tuple[str, str], ...]
    unseen: tuple[Unseen, ...]
    record: Mapping[str, Any] = field(repr=False)

    @property
    def top(self) -> Layer | None:
        """The device that the file system is on."""
        return self.layers[0] if self.layers else None

    @property
    def leaves(self) -> tuple[Layer, ...]:
        """Devices with nothing known below."""
        return tuple(layer for layer in self.layers if not layer.below and not layer.somewhere_on)

    @cached_property
    def uppermost(self) -> tuple[Striped, ...]:
        """The stripes that file system and volumes must fit: those that do not lie below others. There are
        several where a volume, or a file system, has several arrays."""
        names, covered = {striped.on for striped in self.striped}, set[str]()
        for layer in self.layers:  # each before those that it lies on
            if layer.name in names or layer.name in covered:
                covered.update(layer.lower)
        return tuple(striped for striped in self.striped if striped.on not in covered)

    def layer(self, name: str) -> Layer | None:
        """The layer of this kernel name."""
        return self._named.get(name)

    def of_kind(self, *kinds: str) -> Iterator[Layer]:
        """Layers of these kinds, uppermost first."""
        return (layer for layer in self.layers if layer.kind in kinds)

    def above(self, layer: Layer) -> tuple[Layer, ...]:
        """Layers that lie directly on this one."""
        return tuple(self._uppers.get(layer.name, ()))

    def disk_of(self, layer: Layer) -> Layer:
        """The whole device that a partition is part of; any other layer is its own."""
        while layer.kind == "partition" and layer.below and (below := self.layer(layer.below[0].on)):
            layer = below
        return layer

    @cached_property
    def _named(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def _uppers(self) -> dict[str, list[Layer]]:
        found: dict[str, list[Layer]] = {}
        for layer in self.layers:
            for name in layer.lower:
                found.setdefault(name, []).append(layer)
        return found


def read(record: Mapping[str, Any]) -> Stack:
    """A record (checked against the agent's schema before) as a `Stack`."""
    mount, filesystem = record.get("mount"), record.get("filesystem")
    return Stack(
        target=record["target"],
        taken=record["taken"],
        host=record["host"],
        mount=_mount(mount) if mount else None,
        filesystem=_filesystem(filesystem) if filesystem else None,
        layers=tuple(_layer(layer) for layer in record["layers"]),
        striped=tuple(_striped(striped) for striped in record.get("striped") or ()),
        timers=tuple((timer["name"], timer["from"]) for timer in record.get("timers") or ()),
        unseen=tuple(_unseen(unseen) for unseen in record.get("unseen") or ()),
        record=record,
    )


def _layer(layer: Mapping[str, Any]) -> Layer:
    return Layer(
        name=layer["name"],
        node=layer["node"],
        kind=layer["kind"],
        size=layer["size"],
        queue=layer["queue"],
        facts=layer["facts"],
        below=tuple(
            Piece(piece["start"], piece["size"], piece["on"], piece["offset"], piece.get("chunk"))
            for piece in layer["below"]
        ),
        somewhere_on=tuple(layer.get("somewhere_on") or ()),
    )


def _striped(striped: Mapping[str, Any]) -> Striped:
    return Striped(
        on=striped["on"],
        chunk=striped["chunk"],
        data_disks=striped["data_disks"],
        stripe=striped["stripe"],
        read_ahead=striped.get("read_ahead"),
        pieces=tuple(
            StripedPiece(piece["start"], piece["size"], piece["offset"], piece["off"], piece.get("off_chunk"))
            for piece in striped["pieces"]
        ),
        steps=tuple(Step(step["layer"], step["off"], bool(step.get("pv"))) for step in striped["steps"]),
    )


def _mount(mount: Mapping[str, Any]) -> Mount:
    return Mount(
        point=mount["point"],
        source=mount["source"],
        fstype=mount["fstype"],
        options=tuple(mount["options"]),
        bdi=mount["bdi"],
        read_ahead=mount.get("read_ahead"),
    )


def _filesystem(found: Mapping[str, Any]) -> FileSystem:
    barriers = found.get("barriers") or {}
    geometry = found.get("geometry") or {}
    space = found.get("space")
    return FileSystem(
        type=found["type"],
        known=found["known"],
        on=tuple(found["on"]),
        superblock=found.get("superblock"),
        upkeep={name: value for name, value in (found.get("upkeep") or {}).items() if value is not None},
        barriers=barriers.get("on"),
        barriers_off_by=barriers.get("off_by"),
        geometry=geometry.get("found"),
        expected_geometry=geometry.get("expected"),
        space=_space(space) if space else None,
        commands=found.get("commands") or {},
    )


def _space(space: Mapping[str, Any]) -> Space:
    pieces = space.get("pieces")
    numbers = {name: space[name] for name in ("size", "free", "available", "inodes", "inodes_free")}
    return Space(**numbers, pieces=_pieces(pieces) if pieces else None)


def _pieces(pieces: Mapping[str, Any]) -> Pieces:
    numbers = {name: pieces[name] for name in ("count", "bytes", "largest", "in_large")}
    return Pieces(**numbers, whole=pieces["whole"])


def _unseen(unseen: Mapping[str, Any]) -> Unseen:
    reason = unseen["reason"]
    return Unseen(unseen["what"], unseen.get("layer"), reason["message"], reason.get("advice"))
