"""An audit for people: the verdict, the stack, each finding with what mends it, what could not be seen."""

from __future__ import annotations

from collections.abc import Callable

from fsdyno.audit.draw import column
from fsdyno.audit.evidence import Cost
from fsdyno.audit.rule import Rule, Severity
from fsdyno.audit.rules import TABLE
from fsdyno.audit.run import Audit, Judged
from fsdyno.audit.stack import Unseen
from fsdyno.audit.words import on_what
from fsdyno.lines import WIDEST, Line, clean, columns, labelled, pasteable, wrap

INDENT = 3
_COLUMN = INDENT + 10
_FEW = 6  # layers that are named

WORDS = {Severity.DANGER: "danger", Severity.ADVICE: "advice", Severity.NOTE: "note"}
STYLE = {Severity.DANGER: "red", Severity.ADVICE: "yellow", Severity.NOTE: "dim"}


def show(
    audit: Audit, costs: Callable[[Rule], Cost], *, width: int = WIDEST, recorded: str | None = None
) -> list[Line]:
    """The whole audit, no line wider than `width` but for single words of commands. `recorded` says of
    which host a saved record is, and when it was taken.
    """
    lines: list[Line] = [((text, _verdict_style(audit)),) for text in wrap(verdict(audit), width)]
    if recorded:
        lines += [((text, "dim"),) for text in wrap(recorded, width)]
    lines += [(), *column(audit.stack, width)]
    problems: dict[str, None] = {}
    for number, judged in enumerate(audit.found, 1):
        cost = judged.cost(costs)
        if cost.problem:
            problems["; ".join(line.strip() for line in cost.problem.splitlines())] = None
        lines += [(), *_finding(number, judged, cost, width)]
    for problem in problems:
        lines += [(), *(((text, "yellow"),) for text in wrap(f"costs were not looked up: {problem}", width))]
    if audit.stack.unseen:
        lines += [(), *_unseen(audit, width)]
    if recorded and audit.found:
        host = audit.stack.host["name"]
        said = f"what to do is for {host}, and commands may be as whoever wrote the record put them: "
        said += "read them before you type them"
        lines += [(), *(((text, "yellow"),) for text in wrap(said, width))]
    return lines


def verdict(audit: Audit) -> str:
    """In a line, what it comes to."""
    stack = audit.stack
    what = f"{stack.mount.point if stack.mount else stack.target} ({on_what(stack)})"
    counts = [
        (WORDS[s], sum(j.finding.severity == s for j in audit.found)) for s in sorted(WORDS, reverse=True)
    ]
    shown = ", ".join(_counted(word, n) for word, n in counts if n)
    if not stack.layers:
        return f"nothing was judged: no device of {what} is known"
    if audit.worst is None:
        seen = " as far as it could be seen" if audit.blind else ""
        notes = f", {shown}" if shown else ""
        return f"nothing to mend{seen}: {len(TABLE)} rules looked at {what}{notes}"
    return f"{shown} for {what}"


def _counted(word: str, n: int) -> str:
    if word == WORDS[Severity.ADVICE]:
        return f"{n} piece{'' if n == 1 else 's'} of {word}"
    return f"{n} {word}{'' if n == 1 else 's'}"


def _verdict_style(audit: Audit) -> str:
    if audit.worst is None:
        return "green" if audit.stack.layers else "yellow"
    return STYLE[audit.worst]


def _finding(number: int, judged: Judged, cost: Cost, width: int) -> list[Line]:
    finding, rule = judged.finding, judged.rule
    head = f"{number}. "
    title = wrap(f"{WORDS[finding.severity]}: {rule.title} ({finding.about})", width - len(head))
    lines: list[Line] = []
    for n, text in enumerate(title):
        lines.append(((head if n == 0 else " " * len(head), ""), (text, STYLE[finding.severity])))
    if len(head) + columns(title[-1]) + 2 + len(rule.name) <= width:
        lines[-1] = (*lines[-1], (f"  {rule.name}", "dim"))
    else:
        lines.append(((f"{'':{INDENT}}{rule.name}", "dim"),))
    room = width - _COLUMN
    texts = [("found", finding.found)]
    if finding.severity > Severity.NOTE:
        texts += [("expected", finding.expected), ("why", finding.why)]
    for label, words in texts:
        lines += labelled(label, wrap(words, room), indent=INDENT)
    lines += labelled("do", pasteable(finding.command, room), indent=INDENT, style="bold")
    if finding.severity > Severity.NOTE:
        lines += labelled("cost", wrap(" ".join(cost.text), room), indent=INDENT, style="dim")
    return lines


def _unseen(audit: Audit, width: int) -> list[Line]:
    """What could not be read, by what would change it, and which rules may have missed something."""
    lines: list[Line] = [(("could not be seen:", "yellow"),)]
    groups: dict[str | None, dict[tuple[str, str], list[Unseen]]] = {}
    for unseen in audit.stack.unseen:
        key = (unseen.what, _without(unseen.message, unseen.layer))
        groups.setdefault(unseen.advice, {}).setdefault(key, []).append(unseen)
    for advice, items in groups.items():
        for (what, _), unseens in items.items():
            names = [unseen.layer for unseen in unseens if unseen.layer]
            more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
            of = f" of {', '.join(names[:_FEW])}{more}" if names else ""
            text = f"{what}{of}: {unseens[0].message}"
            lines += [((f"{'':{INDENT}}{part}", ""),) for part in wrap(text, width - INDENT)]
        if advice:
            lines += [
                ((f"{'':{INDENT + 2}}{part}", "dim"),) for part in wrap(f"→ {advice}", width - INDENT - 2)
            ]
    blind = dict.fromkeys(rule.name for rule, _ in audit.blind)
    if blind:
        said = f"of {len(TABLE)} rules these may have missed something: {', '.join(blind)}"
        lines += [((part, ""),) for part in wrap(said, width)]
    return lines


def _without(message: str, layer: str | None) -> str:
    """A message without the name that it is about, so that the same one of several is said once."""
    return clean(message).replace(layer, "") if layer else message
