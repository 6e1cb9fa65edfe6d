#!/usr/bin/env python3
"""The parts of docs/audit.md and README.md that follow from the rules: a recorded stack audited, their table.

    .venv/bin/python tools/audit_page.py            prints them
    .venv/bin/python tools/audit_page.py --write    puts them between the marks in the pages

`tests/audit/test_page.py` holds the pages against the rules.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fsdyno.audit import audit, read
from fsdyno.audit.evidence import cost
from fsdyno.audit.rules import TABLE
from fsdyno.audit.show import show
from fsdyno.lines import rendered

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "tests" / "audit" / "stacks" / "second-volume-xfs.json"
MADE = "made by tools/audit_page.py"


def example() -> str:
    """What an audit of the recorded stack prints."""
    found = audit(read(json.loads(EXAMPLE.read_text())))
    text = rendered(show(found, lambda rule: cost(rule, found.stack, None)), colour=False)
    return f"```\n{text}```"


def table() -> str:
    """A row for each rule, in the order of the table of rules."""
    rows = [(f"`{rule.name}`", rule.title, rule.source, ", ".join(rule.needs) or "–") for rule in TABLE]
    heads = ("rule", "looks at", "source", "needs")
    lines = [heads, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([text[0], "|---" * len(heads) + "|", *text[1:]])


PARTS = {"example": example, "rules": table}
PAGES = {ROOT / "docs" / "audit.md": ("example", "rules"), ROOT / "README.md": ("example",)}


def page(path: Path) -> str:
    """A page with each of its parts between its marks. Raises `ValueError` where they are missing."""
    text = path.read_text()
    for name in PAGES[path]:
        begin, end = f"<!-- {name}, {MADE}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{path.name} has no marks for {name}")
        text = f"{before}{begin}\n{PARTS[name]()}\n{end}{after}"
    return text


def main() -> None:
    """Prints the parts, or writes them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true")
    if options.parse_args().write:
        for path in PAGES:
            path.write_text(page(path))
    else:
        print("\n\n".join(part() for part in PARTS.values()))


if __name__ == "__main__":
    main()
