"""Arrays that miss a member, or are busy with themselves."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.offstripe import PARITY
from fsdyno.audit.questions import REDUNDANT, is_read_only, number, slots, text
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack
from fsdyno.units import show_bytes

AT_REST = ("", "idle", "frozen")
# From this size of a member on mdadm makes a bitmap by itself.
BITMAP_FROM = 100 << 30


def judge(stack: Stack) -> Iterator[Finding]:
    """Each array of md by itself."""
    for layer in stack.of_kind("md"):
        yield from _stopped(stack, layer)
        yield from _degraded(layer)
        yield from _at_work(layer)
        yield from _faulty(layer)
        yield from _mismatches(layer)
        yield from _no_bitmap(layer)


def _stopped(stack: Stack, layer: Layer) -> Iterator[Finding]:
    state, node = text(layer.facts, "array_state"), shell.node(layer)
    if state in ("broken", "inactive"):
        found, why = f"{layer.node} is {state}", "a member that it cannot do without is gone"
        yield _finding(Severity.DANGER, layer, found, "an active array", why, f"mdadm --detail {node}")
    elif state in ("readonly", "suspended") and not is_read_only(stack):
        found, why = f"{layer.node} is {state}", "it takes no writes"
        command = f"mdadm --readwrite {node}" if state == "readonly" else f"mdadm --detail {node}"
        yield _finding(Severity.ADVICE, layer, found, "an active array", why, command)


def _degraded(layer: Layer) -> Iterator[Finding]:
    missing, members = number(layer.facts, "degraded") or 0, number(layer.facts, "members") or 0
    if missing <= 0:
        return
    level = text(layer.facts, "level")
    left, node = number(layer.facts, "survives"), shell.node(layer)
    more = {None: "", 0: "; it survives no further loss"}.get(left, f"; it survives the loss of {left} more")
    rebuilds = text(layer.facts, "sync_action") == "recover"
    command = f"mdadm --wait {node}  # it rebuilds already" if rebuilds else f"mdadm {node} --add DISK"
    yield _finding(
        Severity.DANGER,
        layer,
        f"{layer.node} ({level}) misses {missing} of {members} members{more}",
        f"{members} of {members}",
        "less redundancy than it was built for, and reads of the missing part are computed from the rest"
        if level in PARITY
        else "less redundancy than it was built for, and fewer members to read from",
        command,
    )


def _at_work(layer: Layer) -> Iterator[Finding]:
    action = text(layer.facts, "sync_action")
    work = text(layer.facts, "at_work") or (action if action not in AT_REST else "")
    if work:
        done = layer.facts.get("done")
        share = f", {100 * done:.0f} % done" if isinstance(done, float) else ""
        yield _finding(
            Severity.ADVICE,
            layer,
            f"{layer.node} is at work by itself: {work}{share}",
            "an array at rest",
            "it takes bandwidth and seeks from its users; measurements mean nothing now",
            f"mdadm --wait {shell.node(layer)}",
        )


def _faulty(layer: Layer) -> Iterator[Finding]:
    for device, states in slots(layer):
        if "faulty" in states:
            yield _finding(
                Severity.ADVICE,
                layer,
                f"{device} failed and still belongs to {layer.node}",
                "members that work",
                "its errors were real: a disk that failed once may fail again",
                f"mdadm {shell.node(layer)} --remove {shell.word(f'/dev/{device}')}",
            )


def _mismatches(layer: Layer) -> Iterator[Finding]:
    """Of a check only: a first resync counts what it makes agree, and a repair what it mended."""
    count, level = number(layer.facts, "mismatch_cnt") or 0, text(layer.facts, "level")
    if count <= 0 or level not in REDUNDANT or text(layer.facts, "last_sync_action") != "check":
        return
    parity, runs = level in PARITY, text(layer.facts, "sync_action") not in AT_REST
    which, so_far = ("running", ", so far") if runs else ("last", "")
    yield _finding(
        Severity.DANGER if parity else Severity.ADVICE,
        layer,
        f"the {which} check of {layer.node} met {show_bytes(count * 512)} that do not agree{so_far}",
        "copies and parity that agree",
        "software makes none on this level: a member returns wrong data, or was never synced"
        if parity
        else "a member returns wrong data, or swap and mapped files changed while they were written",
        f"mdadm --wait {shell.node(layer)}  # the kernel begins no other check meanwhile"
        if runs
        else f"echo check > {shell.attribute(layer, 'md/sync_action')}",
    )


def _no_bitmap(layer: Layer) -> Iterator[Finding]:
    policy = text(layer.facts, "consistency_policy")
    size = number(layer.facts, "member_size") or 0
    none = text(layer.facts, "bitmap") == "none" and policy in ("", "resync")
    if none and size >= BITMAP_FROM and text(layer.facts, "level") in REDUNDANT:
        yield _finding(
            Severity.ADVICE,
            layer,
            f"{layer.node} has no bitmap, and members of {show_bytes(size)}",
            "an internal bitmap, as mdadm makes it from 100 GiB on",
            "after a crash, or when a member comes back, all of it is synced anew",
            f"mdadm --grow --bitmap=internal {shell.node(layer)}",
        )


def _finding(severity: Severity, layer: Layer, found: str, expected: str, why: str, command: str) -> Finding:
    return Finding(severity, layer.name, found, expected, why, command)


RULE = Rule(
    name="array-state",
    title="arrays that are degraded, at work, or without a bitmap",
    source="Linux Documentation/admin-guide/md.rst; md(4), scrubbing and mismatches; mdadm(8), --bitmap",
    needs=("layer", "segments"),
    judge=judge,
    caught=("degraded", "resyncing"),
)
