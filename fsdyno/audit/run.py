"""An audit: every rule on one stack, what they found in the order of its cost, what they could not see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fsdyno.audit.evidence import UNMEASURED, Cost
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.rules import TABLE
from fsdyno.audit.stack import Stack, Unseen


@dataclass(frozen=True)
class Judged:
    """A finding and the rule that made it."""

    rule: Rule
    finding: Finding

    def cost(self, of: Callable[[Rule], Cost]) -> Cost:
        """What it costs, where `of` tells what the findings of a rule cost that its evidence is about."""
        return of(self.rule) if self.finding.measured else UNMEASURED


@dataclass(frozen=True)
class Audit:
    """What is wrong with a stack, worst first, and which rules may have missed something, and why."""

    stack: Stack
    found: tuple[Judged, ...]
    blind: tuple[tuple[Rule, Unseen], ...]

    @property
    def worst(self) -> Severity | None:
        """The worst severity of what is wrong; None if nothing is."""
        wrong = (judged.finding.severity for judged in self.found)
        return max((severity for severity in wrong if severity > Severity.NOTE), default=None)


def audit(stack: Stack) -> Audit:
    """Judges a stack. Dangers come first, then the order of the table, which is that of cost."""
    found = [Judged(rule, finding) for rule in TABLE for finding in rule.judge(stack)]
    found.sort(key=lambda judged: -judged.finding.severity)
    blind = [(rule, unseen) for rule in TABLE for unseen in stack.unseen if unseen.what in rule.needs]
    return Audit(stack, tuple(found), tuple(blind))
