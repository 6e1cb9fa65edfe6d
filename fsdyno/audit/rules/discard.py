"""Whether free space is told to disks that make use of it, and at what price."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.offstripe import PARITY
from fsdyno.audit.questions import all_below, few, is_read_only, is_virtual, number, text
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack

ONLINE = ("discard", "discard=sync")
# Where these are shown too, discards are gathered and sent later.
GATHERED = ("discard_unit=",)
TRIM = "systemctl enable --now fstrim.timer"


def judge(stack: Stack) -> Iterator[Finding]:
    """A mount that discards at once what is deleted; disks that would discard and are never asked, and by
    whom the asking is stopped."""
    mount, top = stack.mount, stack.top
    if mount is None or top is None or is_read_only(stack):
        return
    gathered = any(option.startswith(GATHERED) for option in mount.options)
    online = [option for option in ONLINE if option in mount.options and not gathered]
    trimmed = any("fstrim" in name for name, _ in stack.timers)
    unseen = any(unseen.what == "timers" for unseen in stack.unseen)
    if online and _discards(top):
        commands = stack.filesystem.commands if stack.filesystem else {}
        without = commands.get("discard_off") or shell.taken_out(online[0], mount.point)
        yield Finding(
            Severity.ADVICE,
            mount.point,
            f"mounted with {online[0]}",
            "fstrim once a week",
            "discards compete with reads and writes all day",
            without if trimmed or unseen else f"{TRIM} {'' if without.startswith('#') else '&& '}{without}",
        )
    able = [leaf for leaf in stack.leaves if _discards(leaf) and not _rotates(leaf) and not is_virtual(leaf)]
    if not able:
        return
    if not _discards(top):
        yield from _stopped(stack, able)
        return
    asked = any(option.split("=")[0] == "discard" for option in mount.options)
    if not trimmed and not asked and not unseen:
        yield Finding(
            Severity.ADVICE,
            mount.point,
            f"nothing tells {few([leaf.node for leaf in able])} what is free",
            "fstrim once a week",
            "the disk keeps and copies what was deleted: writes become slower as it fills",
            TRIM,
        )


def _stopped(stack: Stack, able: list[Layer]) -> Iterator[Finding]:
    """The lowest layer above such a disk that passes none on. Where that is the safe default it is a note."""
    names = {leaf.name for leaf in able}
    stops = (
        layer
        for layer in reversed(stack.layers)
        if layer.kind != "partition"
        and number(layer.queue, "discard_max_bytes") == 0
        and any(lower.name in names for lower in all_below(stack, layer))
    )
    layer = next(stops, None)
    if layer is None:
        return
    severity = Severity.NOTE
    if layer.kind == "crypt":
        name = text(layer.facts, "name")
        command = f"cryptsetup refresh --allow-discards {shell.word(name) if name else 'NAME'}"
        why = "the disk keeps and copies what was deleted; allowed, it shows which blocks are unused"
    elif text(layer.facts, "level") in PARITY:
        command = "# if every member reads zeros after a discard: raid456.devices_handle_discard_safely=Y"
        why = "the disks keep and copy what was deleted; members that do not read zeros would break parity"
    else:
        severity = Severity.ADVICE
        command = f"lsblk --discard {shell.node(layer)}"
        why = "the disks keep and copy what was deleted: writes become slower as they fill"
    yield Finding(
        severity,
        layer.name,
        f"discards stop at {layer.node}, above {few([leaf.node for leaf in able])}",
        "discards down to disks that use them, where that is safe",
        why,
        command,
    )


def _discards(layer: Layer) -> bool:
    return (number(layer.queue, "discard_max_bytes") or 0) > 0


def _rotates(layer: Layer) -> bool:
    return number(layer.queue, "rotational") != 0


RULE = Rule(
    name="discard",
    title="how freed blocks are discarded",
    source="fstrim(8); xfs(5) and ext4(5), discard; cryptsetup(8), --allow-discards; drivers/md/raid5.c, "
    "devices_handle_discard_safely",
    needs=("queue", "timers"),
    judge=judge,
    caught=("online-discard",),
)
