"""What a campaign found, shown. Reads the answers of `stats`, computes none; knows no SQL.

`build.build` assembles a `model.Report` of plain values; each exporter is one small file that turns it
into text. Adding one is adding its file and its line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsdyno.report.build import Depth
    from fsdyno.report.model import Report


@dataclass(frozen=True)
class Exporter:
    """A form of the report: the depth that it needs, and the module whose `text` makes it."""

    name: str
    depth: Depth
    module: str

    @property
    def text(self) -> Callable[[Report], str]:
        """Report -> text. Imported when asked for: templates and tables are heavy."""
        made: Callable[[Report], str] = import_module(self.module).text
        return made


EXPORTERS: dict[str, Exporter] = {
    exporter.name: exporter
    for exporter in (
        Exporter("terminal", "headline", "fsdyno.report.terminal"),
        Exporter("json", "all", "fsdyno.report.json"),
        Exporter("csv", "all", "fsdyno.report.csv"),
        Exporter("html", "deep", "fsdyno.report.html"),
    )
}
