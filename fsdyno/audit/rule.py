"""What a rule of the audit is: one value, in one file of `fsdyno.audit.rules`, one row in its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from fsdyno.audit.evidence import Evidence
from fsdyno.audit.stack import Stack


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 0  # nothing is wrong; to be known before anything is measured
    ADVICE = 1  # slower, or disturbed, than it need be
    DANGER = 2  # data may be lost


@dataclass(frozen=True)
class Finding:
    """What is wrong with one thing. Texts are one line each, without a full stop at the end."""

    severity: Severity
    about: str  # the layer's kernel name, or the mount point
    found: str
    expected: str
    why: str
    command: str  # one line for a shell; where none mends it, a comment (`# …`) that says what does
    measured: bool = True  # whether the rule's evidence, if it has one, is about this finding


@dataclass(frozen=True)
class Rule:
    """A rule."""

    name: str  # in kebab-case, as the file's name with hyphens
    title: str  # what it looks at, some words
    source: str  # where the rule is from: documentation, kernel source, measurement
    needs: tuple[str, ...]  # kinds of `unseen` without which it may miss something
    judge: Callable[[Stack], Iterable[Finding]]
    caught: tuple[str, ...]  # recorded stacks of the tests that have it, all of them
    evidence: Evidence | None = None  # how a store shows what it costs
