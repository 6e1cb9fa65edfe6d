"""Which numbers of a campaign may be compared: asks `stats.judging` with what the store knows of a cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fsdyno.report.model import Column
from fsdyno.stats.judging import Ground, unjudged
from fsdyno.store import CampaignInfo, Cell, Store, Trial, canonical
from fsdyno.store.stood import GUEST

WHY = {
    "emulated": "the CPUs are emulated and were busy for half of the time or more: "
    "that shows the emulator; compare the counts",
    "shared": "the devices are files on one disk and the CPUs were busy for half of the time or more: "
    "that does not show separate disks; compare the counts",
}
ELSEWHERE = "the trials ran in different places"

INSTEAD = ("member_written_per_written", "requests_per_operation")
"""What a phase is judged by where its times are not."""

OF_MEMBERS = ("member_read_per_written", "member_written_per_written")
"""What is shown of every stack with members: alignment is judged by counts first."""

ALWAYS = "flushes_per_fsync"


class Judge:
    """What may be judged in one campaign."""

    def __init__(self, store: Store, info: CampaignInfo, trials: list[Trial]) -> None:
        self._emulated = {trial.cell for trial in trials if trial.emulated}
        self._shared = {cell.index for cell in info.cells if files_of(cell) > 1}
        self.members = any(devices_of(cell) > 1 for cell in info.cells)
        self._places: dict[int, set[str]] = {}
        for trial in trials:
            if trial.where.get("place") and (trial.where["place"] != GUEST or "kernel" in trial.where):
                self._places.setdefault(trial.cell, set()).add(trial.where_hash)
        self._busy: dict[tuple[str, str, int], list[float]] = {}
        if self._emulated or self._shared:
            for q in store.samples(info.id, metrics=["busy_share"]):
                for cell, value in zip(q.cells.tolist(), q.values.tolist(), strict=True):
                    self._busy.setdefault((q.phase, canonical(q.point), cell), []).append(value)

    def places(self, cell: int) -> list[str]:
        """Hashes of *where* the trials of a cell ran."""
        return sorted(self._places.get(cell, ()))

    def why_not(self, unit: str, phase: str, point: dict[str, Any], cell: int) -> str | None:
        """Why a cell's numbers of this unit cannot be judged, or None."""
        ground = Ground(cell in self._emulated, cell in self._shared)
        busy = self._busy.get((phase, canonical(point), cell), [])
        code = unjudged(unit, ground, busy)
        return WHY[code] if code else None

    def why_not_compared(self, column: Column, cell: int, other: int) -> str | None:
        """Why two cells' numbers in a column cannot be compared, or None."""
        if self._elsewhere((cell, other)):
            return ELSEWHERE
        reasons = (self.why_not(column.unit, column.phase, column.point, one) for one in (cell, other))
        return next((reason for reason in reasons if reason), None)

    def why_not_ranked(self, column: Column, cells: list[int]) -> dict[int, str]:
        """The cells that keep a column from being ranked, with the reasons; empty if it may be."""
        if elsewhere := self._elsewhere(cells):
            return dict.fromkeys(elsewhere, ELSEWHERE)
        reasons = {cell: self.why_not(column.unit, column.phase, column.point, cell) for cell in cells}
        return {cell: reason for cell, reason in reasons.items() if reason}

    def _elsewhere(self, cells: Iterable[int]) -> list[int]:
        """The cells that keep these from being compared, since not all their trials ran in one place: those
        that ran in several themselves, else all. A pooled number belongs to no place."""
        ran = {cell: self._places.get(cell, set()) for cell in cells}
        if len(set().union(*ran.values())) < 2:
            return []
        return [cell for cell, places in ran.items() if len(places) > 1] or list(ran)

    def counted(self, metric: str, phase: str, kind: str, point: dict[str, Any]) -> bool:
        """Whether a metric of a phase stands beside its headline in tables and answers."""
        if kind != "workload":
            return False
        if metric == ALWAYS or (self.members and metric in OF_MEMBERS):
            return True
        if metric not in INSTEAD:
            return False
        return any(self.why_not("s", phase, point, cell) for cell in self._emulated | self._shared)


def files_of(cell: Cell) -> int:
    """The number of devices of a cell's stack that are files."""
    found = (device.get("file") for device in cell.spec.get("stack", {}).get("devices") or [])
    return sum(int(file.get("count", 1)) for file in found if file is not None)


def devices_of(cell: Cell) -> int:
    """The number of devices of a cell's stack."""
    disks = sum("file" not in device for device in cell.spec.get("stack", {}).get("devices") or [])
    return files_of(cell) + disks
