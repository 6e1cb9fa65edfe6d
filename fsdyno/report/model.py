"""A report as plain values: everything that the exporters show, and nothing that they must work out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fsdyno.stats.ratio import Ratio

Point = dict[str, Any]


ON_FILES = (
    "devices are files: a flush is an fsync of the file system below them, "
    "so barriers do not cost what they cost on a disk"
)
"""The mark on every cost of barriers that was measured on files."""


EMULATED = (
    "emulated: CPUs emulated by QEMU: counts are true, times are an emulator's and are never compared with "
    "native ones"
)
"""The note to the mark on rows from a guest without KVM."""

NO_FLUSHES = "no flushes: sends no flushes: always without barriers"
"""The note to the mark on rows of a file system that never flushes its device."""

BARRIERS_OFF = "barriers off: what a power cut may destroy is not asked here"
"""The note to the mark on rows whose barriers the plan turned off."""


@dataclass(frozen=True)
class Row:
    """A cell: one row of the answer."""

    index: int
    name: str
    label: dict[str, str]
    what: str
    driver: str | None  # the kernel driver that really served it
    limit: bool  # no device under it: it shows the machine, and is not ranked
    reference: bool
    trials: int
    outcomes: dict[str, int]
    suspects: int  # trials with doubts
    excluded: str | None  # outcome, where the survey said no
    reasons: list[str]  # why it was left out, or why trials were not ok
    emulated: bool = False  # CPUs emulated by QEMU
    barriers: str = ""  # `no flushes`: it never sends any; `barriers off`: the plan turned them off
    aligned: bool | None = None  # None: nothing said so
    alignment: list[str] = field(default_factory=list)  # what the medium says about it, in sentences
    places: list[str] = field(default_factory=list)  # hashes of *where* its trials ran, of those with numbers
    made: list[str] = field(default_factory=list)  # hashes of what its mkfs made
    group: str = ""  # its values on the axes that the reference leaves open; it is compared within these
    short: str = ""  # its name within the group

    @property
    def title(self) -> str:
        """Its name, with what must be known to read its numbers."""
        return f"{self.name} ({self.remark})" if self.remark and not self.limit else self.name

    @property
    def foreign_driver(self) -> bool:
        """Whether another driver served it than its name says."""
        return bool(self.driver) and self.driver not in self.name.split()

    @property
    def remark(self) -> str:
        """What must be known to read its numbers."""
        driver = f"{self.driver} driver" if self.foreign_driver else ""
        words = ["no disk"] if self.limit else [driver, self.barriers]
        return ", ".join(word for word in (*words, "emulated" if self.emulated else "") if word)


@dataclass(frozen=True)
class Column:
    """One metric of one phase at one point."""

    phase: str
    kind: str
    load: str | None
    point: Point
    point_name: str  # empty outside a sweep
    metric: str
    unit: str
    direction: str
    headline: bool
    counted: bool = False  # a count that stands beside the headline in tables and answers

    @property
    def title(self) -> str:
        """Phase and point."""
        return f"{self.phase} {self.point_name}".strip()

    @property
    def words(self) -> str:
        """The metric as words."""
        return self.metric.replace("_", " ")


@dataclass(frozen=True)
class Entry:
    """The numbers of one row in one column; `values` has one number per trial, in order of rounds."""

    column: Column
    cell: int
    n: int
    median: float
    low: float | None
    high: float | None
    coverage: float | None
    versus: str | None  # name of the reference cell
    ratio: Ratio | None
    values: list[float]
    rounds: list[int]
    trials: list[str]
    suspect: list[bool]
    unjudged: str | None = None  # why it is not compared with anything


@dataclass(frozen=True)
class Missing:
    """A phase that gave no numbers in any trial of a cell, and what it said instead."""

    phase: str
    point: Point
    cell: int
    outcome: str
    reason: str


@dataclass(frozen=True)
class Answer:
    """A sentence that answers the plan's question for one column."""

    column: Column
    text: str
    claimed: bool  # False for a pilot, or where nobody is clearly ahead
    best: str  # name of the cell with the best median
    ratio: Ratio | None  # of the best to `versus`
    versus: str | None
    rounds: int
    note: str = ""  # what must be said with it; `text` has it already
    pressing: bool = False  # the note is about the best itself
    unjudged: str | None = None  # why the column is not judged at all; then there is no best
    group: str = ""  # of the rows that it is about, see `Row.group`; empty: all rows
    ranked: int = 0  # rows that it is about
    alike: bool = False  # counts that do not tell the rows apart

    @property
    def subject(self) -> str:
        """The phase, with the metric where it is not the one that the phase is for."""
        return f"{self.column.phase}, {self.column.words}" if self.column.counted else self.column.phase

    @property
    def title(self) -> str:
        """What its text begins with: the phase at its point, the metric, the group."""
        return title_of(self.column, self.group)


def title_of(column: Column, group: str = "") -> str:
    """The phase at its point, the metric where it is not the one that the phase is for, and the group."""
    words = (column.title, column.words if column.counted else "", group)
    return ", ".join(word for word in words if word)


@dataclass(frozen=True)
class Doubt:
    """A kind of doubt with where it was met."""

    doubt: str
    trials: int
    phases: list[str]
    example: str


@dataclass(frozen=True)
class Latency:
    """Latencies of one operation, merged over trials; seconds. Percentiles that need more are absent."""

    phase: str
    point_name: str
    cell: int
    op: str
    count: int
    mean: float
    percentiles: dict[str, float]
    longest: float


@dataclass(frozen=True)
class Trace:
    """Work per interval in the trial that is nearest to the median."""

    phase: str
    point_name: str
    cell: int
    trial: str
    interval: float  # s
    operations: list[int]
    bytes: list[int]


@dataclass(frozen=True)
class Evidence:
    """What one trial of a cell read back and ran: by phase, in order."""

    cell: int
    trial: str
    facts: list[tuple[str, dict[str, Any]]]
    tools: list[dict[str, Any]]  # phase, argv, version, exit, meaning, wall
    shell: list[dict[str, Any]]


@dataclass(frozen=True)
class LogLine:
    """A line of the kernel log that came during a trial."""

    cell: int
    round: int
    phase: str
    line: str


@dataclass(frozen=True)
class Report:
    """Everything there is to say about a campaign, at the depth that was asked for."""

    store: str
    id: str
    name: str
    question: str
    status: str
    source: str
    origin: str
    plan_text: str
    version: str
    seed: int
    started: float
    ended: float | None
    rounds: int
    complete_rounds: int
    reference: dict[str, Any]
    where: dict[str, Any]
    where_hash: str
    hello: dict[str, Any] | None
    survey: dict[str, Any]
    definitions: dict[str, str]  # metric -> definition
    rows: list[Row]
    columns: list[Column]
    entries: list[Entry]
    answers: list[Answer]
    doubts: list[Doubt]
    tool_share: dict[str, float]  # phase -> largest median share over cells
    on_files: bool  # devices are files: a flush there is an fsync of the file system below
    problems: list[str] = field(default_factory=list)  # why trials are not what they should all be
    missing: list[Missing] = field(default_factory=list)
    machines: list[dict[str, Any]] = field(default_factory=list)  # where trials ran, see `Trial.where`
    latencies: list[Latency] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    kernel_log: list[LogLine] = field(default_factory=list)

    @property
    def pilot(self) -> bool:
        """Fewer rounds than a verdict needs."""
        from fsdyno.stats import ENOUGH_ROUNDS

        return self.complete_rounds < ENOUGH_ROUNDS

    @property
    def unjudged(self) -> list[str]:
        """Why numbers are shown and not compared, each reason once."""
        return list(dict.fromkeys(entry.unjudged for entry in self.entries if entry.unjudged))

    @property
    def notes(self) -> list[str]:
        """What the marks on rows mean, for those that are there."""
        marks = [(any(row.emulated for row in self.rows), EMULATED)]
        marks += [
            (any(row.barriers and note.startswith(row.barriers) for row in self.rows), note)
            for note in (NO_FLUSHES, BARRIERS_OFF)
        ]
        marks.append((self.on_files, ON_FILES))
        return [note for there, note in marks if there]

    def absence(self, column: Column, cell: int) -> Missing | None:
        """Why a row has no numbers in a column, where its phase said so."""
        return next(
            (m for m in self.missing if (m.cell, m.phase, m.point) == (cell, column.phase, column.point)),
            None,
        )

    def entry(self, column: Column, cell: int) -> Entry | None:
        """The numbers of a row in a column."""
        return self._by_place.get((id(column), cell))

    @property
    def _by_place(self) -> dict[tuple[int, int], Entry]:
        cached = self.__dict__.get("_places")
        if cached is None:
            cached = {(id(entry.column), entry.cell): entry for entry in self.entries}
            object.__setattr__(self, "_places", cached)
        places: dict[tuple[int, int], Entry] = cached
        return places

    def of(self, column: Column) -> list[tuple[Row, Entry]]:
        """The rows that have numbers in a column."""
        found = [(row, self.entry(column, row.index)) for row in self.rows]
        return [(row, entry) for row, entry in found if entry is not None]
