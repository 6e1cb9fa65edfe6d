"""One trial, told whole: nothing buys more trust than seeing what was really done.

Three forms of the same: text for a person, data for a program, a shell script that repeats it by hand.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fsdyno.report.model import EMULATED
from fsdyno.report.numbers import machine_words, with_unit
from fsdyno.store import CampaignInfo, Store, Trial
from fsdyno.store.stood import where_of

if TYPE_CHECKING:
    from rich.console import Console


def data(store: Store, trial: str) -> dict[str, Any]:
    """Everything of a trial (id or prefix) as plain values; `events` are the record itself."""
    found, info, events = _load(store, trial)
    cell = info.cells[[c.index for c in info.cells].index(found.cell)]
    row = {key: value for key, value in vars(found).items() if key != "n"} | {"emulated": found.emulated}
    return {
        "trial": row,
        "campaign": {"id": info.id, "name": info.name, "seed": info.seed, "version": info.version},
        "cell": {
            "index": cell.index,
            "name": cell.name,
            "label": cell.label,
            "what": cell.what,
            "spec": cell.spec,
        },
        "where": where_of(info.where, found.where),
        "where_hash": found.where_hash,
        "made": found.made,
        "hello": info.hello,
        "samples": [
            {"phase": p, "point": point, "metric": m, "value": v}
            for p, point, m, v in store.trial_samples(found.id)
        ],
        "artefacts": [{"name": name, "sha256": sha} for name, sha in store.artefacts(found.id)],
        "shell": shell_steps(events),
        "events": events,
    }


def told_once(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, where the facts of a part that stands (what mkfs made, how it was mounted) are left out
    as far as the end of the phase that made it has them too."""
    found: list[dict[str, Any]] = []
    known: dict[str, Any] = {}
    for event in reversed(list(events)):
        if event["event"] == "phase_end":
            known = event.get("facts") or {}
        elif event["event"] == "phase_start":
            known = {}
        elif event["event"] == "built" and known:
            facts = {k: v for k, v in event["facts"].items() if k not in known or known[k] != v}
            event = {**event, "facts": facts}
        found.append(event)
    return found[::-1]


def shell_steps(events: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """The steps that repeat the trial by hand, from its `end`; empty for a lost one."""
    for event in events:
        if event["event"] == "end":
            steps: list[dict[str, str]] = event.get("shell") or []
            return steps
    return []


def shell(store: Store, trial: str) -> str:
    """The steps as a script that can be run. Raises `UserError` if the trial left none."""
    from fsdyno.errors import Exit, UserError

    found, info, events = _load(store, trial)
    steps = shell_steps(events)
    if not steps:
        raise UserError(
            f"trial {found.id[:8]} left no commands: it ended {found.outcome} before it could",
            code=Exit.STORE,
            advice="show a trial of the same cell that ended ok",
        )
    name = next(c.name for c in info.cells if c.index == found.cell)
    lines = [
        "#!/usr/bin/env bash",
        _comment(f"Repeats trial {found.id} ({name}, round {found.round}) of {info.name} by hand."),
        "# It shows that it works so, not how fast fsdyno does it.",
        "set -eu",
        # so that a step's own clean-up at exit is never cut short by -e
        "trap 'code=$?; trap - ERR; set +e; exit $code' ERR",
    ]
    for step in steps:
        lines += ["", _comment(step["phase"]), step["command"]]
    lines += ["", "trap - ERR", "set +e"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """One line of a script that does nothing, whatever is in the text."""
    return "# " + "".join(c if c.isprintable() else " " for c in text)


def text(store: Store, trial: str, *, width: int = 100, output: bool = False) -> str:
    """Everything of a trial as plain text; `output` adds what the tools printed."""
    from rich.console import Console

    out = io.StringIO()
    render(store, trial, Console(file=out, width=width, color_system=None), output=output)
    return out.getvalue()


def render(store: Store, trial: str, console: Console, *, output: bool = False) -> None:
    """Prints everything of a trial; `output` adds what the tools printed."""
    found, info, events = _load(store, trial)
    cell = next(c for c in info.cells if c.index == found.cell)
    say = _Say(console)
    say(f"trial {found.id}", style="bold")
    say(
        f"  {cell.name}, round {found.round}, position {found.position}, attempt {found.attempt} of its round"
    )
    say(f"  campaign {info.id[:8]} {info.name}: {info.question}")
    began = datetime.fromtimestamp(found.started).astimezone().isoformat(" ", "seconds")
    say(f"  began {began}, took {with_unit(found.ended - found.started, 's')}")
    made = f", made {found.made[:16]}" if found.made else ""
    say(f"  what {cell.what[:16]}{made}, where {found.where_hash[:16]}, seed of the campaign {info.seed}")
    say(f"  place {machine_words(found.where)}")
    if found.emulated:
        say(f"  ! {EMULATED}", style="yellow")
    say(f"  outcome {found.outcome}{' (superseded)' if found.superseded else ''}{_why(found.reason)}")
    for flag in found.flags:
        say(f"  ! {flag['doubt'].replace('_', ' ')}: {flag['reason']}", style="yellow")
    for event in told_once(events):
        _EVENTS.get(event["event"], _nothing)(say, event)
        if event["event"] == "phase_end" and output:
            for tool in event.get("tools") or []:
                _printed(store, say, tool)


def _load(store: Store, trial: str) -> tuple[Trial, CampaignInfo, list[dict[str, Any]]]:
    found = store.trial(trial)
    return found, store.campaign(found.campaign), store.events(found.id)


class _Say:
    """Prints a line as it is: no markup, no highlighting, wrapped by the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, line: str, style: str | None = None) -> None:
        self._console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _nothing(say: _Say, event: dict[str, Any]) -> None:
    """Events that tell nothing here: heartbeats, starts of phases, artefacts."""


def _why(reason: dict[str, Any] | None) -> str:
    if not reason:
        return ""
    advice = f" ({reason['advice']})" if reason.get("advice") else ""
    return f": {reason['message']}{advice}"


def _built(say: _Say, event: dict[str, Any]) -> None:
    if event["facts"]:
        say(f"\n{event['part'].replace('_', ' ')}", style="bold")
        _facts(say, event["facts"])


def _phase(say: _Say, event: dict[str, Any]) -> None:
    point = ", ".join(f"{k.rsplit('.', 1)[-1]}={v}" for k, v in (event.get("point") or {}).items())
    name = f"{event['name']} {point}".strip()
    outcome = (
        ""
        if event["outcome"] == "ok"
        else f"  {event['outcome'].replace('_', ' ')}{_why(event.get('reason'))}"
    )
    cpu = event["cpu"]
    say(f"\n{name}  {with_unit(event['wall'], 's')}{outcome}", style="bold")
    say(
        f"  cpu {with_unit(cpu['user'], 's')} user, {with_unit(cpu['system'], 's')} system; switches "
        f"{cpu['voluntary_switches']} voluntary, {cpu['involuntary_switches']} involuntary"
    )
    for device in event.get("leaves") or []:
        say(f"  {_counts(device)}")
    if event.get("top"):
        say(f"  on them, {_counts(event['top'])}")
    for device in event.get("underneath") or []:
        say(f"  under it, {_counts(device)}")
    host = event["host"]
    say(
        f"  host: {host['pages_dirtied']} pages dirtied, {host['pages_written']} written; "
        f"{with_unit(host['busy'], 's')} CPU busy, {with_unit(host['steal'], 's')} stolen"
    )
    if event.get("workload"):
        _workload(say, event["workload"])
    for tool in event.get("tools") or []:
        say(f"  $ {_command(tool['argv'])}")
        took = with_unit(tool["wall"], "s")
        say(f"    exit {tool['exit']}: {tool['meaning']}; {took}; {tool.get('version') or ''}")
    _facts(say, event.get("facts") or {})
    for line in event.get("kernel_log") or []:
        say(f"  kernel: {line}", style="yellow")
    for flag in event.get("flags") or []:
        say(f"  ! {flag['doubt'].replace('_', ' ')}: {flag['reason']}", style="yellow")


def _counts(device: dict[str, Any]) -> str:
    return (
        f"{device['device']}: {device['reads']} reads {with_unit(device['read_bytes'], 'B')}, "
        f"{device['writes']} writes {with_unit(device['write_bytes'], 'B')}, {device['flushes']} flushes, "
        f"{device['discards']} discards {with_unit(device['discard_bytes'], 'B')}, "
        f"{device['merges']} merges, busy {device['busy_ms']} ms"
    )


def _workload(say: _Say, work: dict[str, Any]) -> None:
    from fsdyno.stats.histogram import Histogram

    cost, claim = work["tool_cost"], work["claim"]
    say(
        f"  {work['kind']} on {work['threads']} threads by {', '.join(work['engine'])}: "
        f"{with_unit(work['elapsed'], 's')}, then {with_unit(work['sync'], 's')} of sync; "
        f"fsdyno's own cost {100 * cost['share']:.2g} %"
    )
    for op in work["operations"]:
        latency = Histogram.from_wire(op["latency"])
        tail = f", median {with_unit(latency.quantile(0.5) / 1e9, 's')}" if latency.count else ""
        if latency.count >= 1000:
            tail += f", p99 {with_unit(latency.quantile(0.99) / 1e9, 's')}"
        longest = f", longest {with_unit(latency.max / 1e9, 's')}" if latency.count else ""
        say(f"  {op['count']} × {op['op']}, {with_unit(op['bytes'], 'B')}{tail}{longest}")
    read, written = with_unit(claim["read"], "B"), with_unit(claim["written"], "B")
    say(f"  the counters must show: {read} read, {written} written, {claim['inodes']:+d} inodes")


def _facts(say: _Say, facts: dict[str, Any]) -> None:
    for key, value in facts.items():
        say(f"  {key} = {value}", style="dim")


def _end(say: _Say, event: dict[str, Any]) -> None:
    say(f"\nend  {event['outcome'].replace('_', ' ')}{_why(event.get('reason'))}", style="bold")
    wall, teardown = with_unit(event["wall"], "s"), with_unit(event["teardown"], "s")
    say(f"  {wall} in all, {teardown} to take the stack down")


def _command(argv: list[str]) -> str:
    import shlex

    return shlex.join(argv)


def _printed(store: Store, say: _Say, tool: dict[str, Any]) -> None:
    for stream in ("stdout", "stderr"):
        printed = store.artefact(tool[stream]).decode(errors="replace").strip("\n")
        if printed:
            say(f"\n  {tool['argv'][0]} on {stream}:")
            for line in printed.split("\n"):
                say(f"  | {line}")


_EVENTS = {"built": _built, "phase_end": _phase, "end": _end}
