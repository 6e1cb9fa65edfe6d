"""A stack drawn as a column, from the mount point down to the disks, with what lies how far into what.

Layers that are alike and lie alike are drawn once: twelve members of an array are one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fsdyno.audit.stack import FileSystem, Layer, Stack
from fsdyno.audit.words import called, details, kib
from fsdyno.lines import Line, clean, columns, padded, wrap
from fsdyno.units import show_bytes

FEW = 3  # segments that are spelt out
SPELT = 4  # names of layers that are alike
_DOWN, _FORK, _LAST = "│ ", "├ ", "└ "
_ALIGNED = 6


def column(stack: Stack, width: int) -> list[Line]:
    """The drawing, no line wider than `width`."""
    drawing = _Drawing(stack, width)
    drawing.file_system()
    tops = [layer for layer in stack.layers if layer is stack.top or layer.name in _devices(stack)]
    edge = f"one of {len(tops)} devices" if len(tops) > 1 else ""
    drawing.lower([(edge, layer) for layer in tops], "")
    return drawing.lines


def _devices(stack: Stack) -> tuple[str, ...]:
    return stack.filesystem.on if stack.filesystem else ()


@dataclass
class _Drawing:
    stack: Stack
    width: int
    lines: list[Line] = field(default_factory=list)
    drawn: set[str] = field(default_factory=set)
    kinds: dict[object, int] = field(default_factory=dict)
    alike: dict[str, int] = field(default_factory=dict)
    off: dict[tuple[str, str], int] = field(init=False)
    places: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """How far what each layer adds is off, by it and what it lies on, where it is off in all."""
        self.off = {}
        for stripes in self.stack.uppermost:
            way = [step for step in stripes.steps if not step.pv] if stripes.off else []
            lower = [*(step.layer for step in way[1:]), stripes.on]
            self.off |= {(step.layer, on): step.off for step, on in zip(way, lower, strict=False) if step.off}

    def file_system(self) -> None:
        """Where it is mounted, and how."""
        stack, system, mount = self.stack, self.stack.filesystem, self.stack.mount
        said = [system.type if system else "no file system that is known here"]
        if system and system.space and system.space.size:
            used = 1 - system.space.free / system.space.size
            said += [show_bytes(system.space.size), f"{used * 100:.0f} % used"]
        if mount and mount.read_ahead is not None:
            said.append(f"reads {show_bytes(mount.read_ahead)} ahead")
        if not mount:
            said.append("not mounted")
        self.head("", mount.point if mount else stack.target, ", ".join(said))
        if mount:
            self.more(_DOWN, ",".join(mount.options).replace(",", ", "))
        if system and (shown := _geometry(system)):
            self.more(_DOWN, shown)

    def head(self, prefix: str, name: str, said: str) -> None:
        """The first line of a layer; what does not fit goes on below its words."""
        name = clean(name)
        start = len(prefix) + max(columns(name), _ALIGNED) + 2
        if start + columns(said) > self.width and start > self.width // 2:
            for n, part in enumerate(wrap(name, self.width - len(prefix) - 2)):
                self.lines.append(((prefix + ("  " if n else ""), "dim"), (part, "bold")))
            self.more(prefix + "  ", said, style="")
            return
        for n, part in enumerate(wrap(said, self.width - start)):
            shown = f"{padded(name, _ALIGNED)}  " if n == 0 else " " * (start - len(prefix))
            self.lines.append(((prefix, "dim"), (shown, "bold"), (part, "")))

    def more(self, prefix: str, said: str, style: str = "dim") -> None:
        """Lines of detail."""
        for part in wrap(said, self.width - len(prefix)):
            self.lines.append(((prefix, "dim"), (part, style)))

    def lower(self, edges: Sequence[tuple[str, Layer]], prefix: str) -> None:
        """What lies below something, with how it lies there: alike ones once."""
        groups: dict[tuple[str, object], list[Layer]] = {}
        for edge, layer in edges:
            again = layer.name in self.drawn
            key = (edge, ("again", again) if again else self.likeness(layer))
            group = groups.setdefault(key, [])
            if layer not in group:
                group.append(layer)
        for n, ((edge, _), group) in enumerate(groups.items()):
            if len(groups) == 1:
                first, rest = _DOWN, ""
            else:
                first, rest = (_LAST, "  ") if n == len(groups) - 1 else (_FORK, _DOWN)
            self.edge(prefix + first, prefix + (rest or _DOWN), edge)
            self.group(group, prefix + rest)

    def edge(self, first: str, rest: str, said: str) -> None:
        """The line to what is below."""
        parts = wrap(said, self.width - len(first)) if said else [""]
        for n, part in enumerate(parts):
            off = "off the stripe" in part
            self.lines.append(((first if n == 0 else rest, "dim"), (part, "yellow" if off else "dim")))

    def group(self, group: list[Layer], prefix: str) -> None:
        """Layers that are alike, and all below them."""
        first = group[0]
        if first.name in self.drawn:
            self.head(prefix, _names(group), "as above")
            return
        self.drawn.update(layer.name for layer in group)
        size = show_bytes(first.size)
        if len(group) > 1:
            self.head(prefix, f"{len(group)} × {called(first)}", f"{_names(group)}, {size} each")
        else:
            usual = first.node == f"/dev/{first.name}"
            said = f"{called(first)}, {size}" + ("" if usual else f", {first.node}")
            self.head(prefix, first.name, said)
        edges = [(self.lies(layer, lower), lower) for layer in group for lower in self.below(layer)]
        if facts := details(self.stack, first):
            self.more(prefix + (_DOWN if edges else "  "), ", ".join(facts))
        if edges:
            self.lower(edges, prefix)

    def below(self, layer: Layer) -> list[Layer]:
        names = dict.fromkeys([*(piece.on for piece in layer.below), *layer.somewhere_on])
        return [found for name in names if (found := self.stack.layer(name))]

    def lies(self, layer: Layer, lower: Layer) -> str:
        """How far into a layer below what is above it begins."""
        offsets = self.offsets(layer).get(lower.name, [])
        if not offsets:
            return "somewhere on"
        if len(offsets) == 1:
            off = self.off.get((layer.name, lower.name))
            return f"+{kib(offsets[0])}" + (f", {kib(off)} off the stripe" if off else "")
        few = ", ".join(f"+{kib(offset)}{self.piece_off(layer, lower, offset)}" for offset in offsets[:FEW])
        return f"{len(offsets)} segments: {few}" + (", …" if len(offsets) > FEW else "")

    def piece_off(self, layer: Layer, lower: Layer, offset: int) -> str:
        """How far one of several pieces is off, where what is striped lies directly below."""
        stripes = next((one for one in self.stack.uppermost if one.on == lower.name), None)
        if (
            layer is not self.stack.top
            or stripes is None
            or any(step.pv and step.off for step in stripes.steps)
        ):
            return ""
        off = next((piece.off for piece in stripes.pieces if piece.offset == offset), 0)
        return f" ({kib(off)} off the stripe)" if off else ""

    def offsets(self, layer: Layer) -> dict[str, list[int]]:
        """Where its pieces lie, by what they lie on; in one pass, since there may be many."""
        if layer.name not in self.places:
            found = self.places.setdefault(layer.name, {})
            for piece in layer.below:
                found.setdefault(piece.on, []).append(piece.offset)
        return self.places[layer.name]

    def likeness(self, layer: Layer) -> int:
        """The same number for layers that would be drawn alike, with all below them."""
        if layer.name not in self.alike:
            lower = tuple((self.lies(layer, on), self.likeness(on)) for on in self.below(layer))
            key = (called(layer), layer.size, tuple(details(self.stack, layer)), lower)
            self.alike[layer.name] = self.kinds.setdefault(key, len(self.kinds))
        return self.alike[layer.name]


def _geometry(system: FileSystem) -> str:
    found = system.geometry or {}
    return ", ".join(f"{name}={value}" for name, value in found.items())


def _names(group: list[Layer]) -> str:
    names = [layer.name for layer in group]
    return ", ".join(names) if len(names) <= SPELT else f"{names[0]} … {names[-1]}"
