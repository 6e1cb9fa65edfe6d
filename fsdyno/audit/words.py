"""Words for what is in a stack: how layers are called, and the facts of each that matter."""

from __future__ import annotations

from fsdyno.audit.questions import number, text
from fsdyno.audit.stack import Layer, Stack
from fsdyno.units import show_bytes


def kib(size: int) -> str:
    """An offset as tools count them: whole KiB where it is."""
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size / 1024:.1f} KiB"


def called(layer: Layer) -> str:
    """What a layer is, in a few words, the same for all that are alike."""
    facts = layer.facts
    if layer.kind == "md":
        return f"{level(layer)} of {number(facts, 'members') or 'unknown'}"
    if layer.kind == "lvm":
        names = [name for key in ("group", "volume") if (name := text(facts, key))]
        return f"volume {'/'.join(names)}".rstrip()
    if layer.kind == "crypt":
        return f"encrypted {text(facts, 'cipher')}".rstrip()
    if layer.kind == "mapper":
        targets = facts.get("targets")
        names = [str(name) for name in targets] if isinstance(targets, list) else []
        return f"mapped ({', '.join(names) or 'unknown'})"
    if layer.kind == "loop":
        return f"loop on {text(facts, 'backing_file') or 'an unknown file'}"
    if layer.kind == "disk":
        return f"disk {text(facts, 'model')}".rstrip()
    return {"multipath": "paths to one disk", "unknown": "of an unknown driver"}.get(layer.kind, layer.kind)


def level(layer: Layer) -> str:
    """`RAID 6`, or as the kernel has it."""
    name = text(layer.facts, "level")
    raid, digits = name[:4], name[4:]
    return f"RAID {digits}" if raid == "raid" and digits.isdigit() else f"array ({name or 'unknown'})"


def details(stack: Stack, layer: Layer) -> list[str]:
    """Facts of a layer that decide on speed, order or safety of writes."""
    found = []
    for striped in stack.striped:
        if striped.on == layer.name:
            chunk, stripe = kib(striped.chunk), kib(striped.stripe)
            found.append(f"chunk {chunk} × {striped.data_disks} data disks = stripe {stripe}")
    if layer.kind == "md":
        found += _array(layer)
    if (start := number(layer.facts, "pv_start")) is not None:
        group, extent = text(layer.facts, "pv_group"), number(layer.facts, "extent")
        steps = [step for stripes in stack.uppermost if stripes.off for step in stripes.steps]
        off = next((step.off for step in steps if step.pv and step.layer == layer.name), 0)
        found.append(f"LVM's data at +{kib(start)}" + (f" ({kib(off)} off the stripe)" if off else ""))
        found += [f"group {group}"] if group else []
        found += [f"extent {show_bytes(extent)}"] if extent else []
    if layer.kind in ("disk", "loop"):
        found += _queue(layer)
    read_ahead = number(layer.queue, "read_ahead_kb")
    if read_ahead is not None and (layer is stack.top or layer.kind == "md"):
        found.append(f"read-ahead {read_ahead} KiB")
    return found


def _array(layer: Layer) -> list[str]:
    found = [name] if (name := text(layer.facts, "layout")) else []
    if missing := number(layer.facts, "degraded"):
        found.append(f"{missing} missing")
    action = text(layer.facts, "sync_action")
    return found + ([action] if action not in ("", "idle") else [])


def _queue(layer: Layer) -> list[str]:
    queue, found = layer.queue, []
    if cache := text(queue, "write_cache"):
        found.append(cache)
    if scheduler := text(queue, "scheduler"):
        found.append(f"scheduler {scheduler}")
    logical, physical = number(queue, "logical_block_size"), number(queue, "physical_block_size")
    if logical and physical:
        same = logical == physical
        found.append(f"sectors of {logical} bytes" if same else f"sectors of {logical} bytes on {physical}")
    rotates = number(queue, "rotational")
    return found + ([] if rotates is None else ["rotating" if rotates else "not rotating"])


def on_what(stack: Stack) -> str:
    """The stack in some words, such as `ext4 on a volume on RAID 6`."""
    system = stack.filesystem
    words = [system.type if system else "no known file system"]
    if system and len(system.on) > 1:
        return f"{words[0]} on {len(system.on)} devices"
    layer, met = stack.top, set[str]()
    while layer is not None and layer.name not in met:
        met.add(layer.name)
        names = {"lvm": "a volume", "crypt": "encryption", "unknown": "an unknown layer"}
        word = level(layer) if layer.kind == "md" else names.get(layer.kind, f"a {layer.kind}")
        words += [word] if words[-1] != word else []
        if layer.kind == "md" and any(stripes.on == layer.name for stripes in stack.uppermost):
            break
        lower = [piece.on for piece in layer.below] or list(layer.somewhere_on)
        layer = stack.layer(lower[0]) if lower else None
    return " on ".join(words)
