#!/usr/bin/env python3
"""The tables of docs/options.md, from what the agent says, so that nobody keeps a second list by hand.

    .venv/bin/python tools/options_table.py            prints them
    .venv/bin/python tools/options_table.py --write    puts them between the marks in docs/options.md

`tests/plan/test_options_page.py` holds the page against the agent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fsdyno.rig import Rig

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
MARKS = ("<!-- made by tools/options_table.py: begin -->", "<!-- end -->")
STAGES = {"mkfs": "At mkfs", "mount": "At mount", "check": "At check"}
WIDELY = 8  # so many file systems share an option that it comes first
FEW = 8  # values that are spelt out


def tables(describe: dict[str, Any], flags: dict[str, list[str]]) -> str:
    """The tables as markdown: options by stage, then the flags of `extra_mkfs` by file system."""
    systems = [fs["name"] for fs in describe["filesystems"]]
    parts = []
    stages = {option["stage"]: None for fs in describe["filesystems"] for option in fs["options"]}
    for stage in sorted(stages, key=list(STAGES).index):
        rows = _options(describe, stage)
        rows.sort(key=lambda row: (len(row[0]) < WIDELY, systems.index(row[0][0])))
        lines = (
            (_names(names, systems), f"`{option['name']}`", values(option["value"]), option["help"])
            for names, option in rows
        )
        parts.append(f"## {STAGES[stage]}\n\n{_table(('of', 'option', 'values', 'help'), lines)}")
    alike: dict[str, list[str]] = {}
    for name, words in flags.items():
        alike.setdefault(" ".join(words), []).append(name)
    shown = ((_names(names, systems), f"`{words}`") for words, names in alike.items())
    parts.append(
        f"## Flags of `extra_mkfs`\n\n{_table(('of', 'flags; `=` marks those with a value'), shown)}"
    )
    return "\n\n".join(parts)


def _options(describe: dict[str, Any], stage: str) -> list[tuple[list[str], dict[str, Any]]]:
    """Each option of a stage once, with the file systems that have it so."""
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for fs in describe["filesystems"]:
        for option in fs["options"]:
            if option["stage"] == stage:
                found.setdefault(json.dumps(option, sort_keys=True), ([], option))[0].append(fs["name"])
    return list(found.values())


def values(schema: dict[str, Any]) -> str:
    """What an option's schema allows, in the units of plans; its default in bold."""
    default = schema.get("default")
    if schema["type"] == "boolean":
        return ", ".join(f"**{word}**" if default is (word == "true") else word for word in ("true", "false"))
    if schema["type"] == "array":
        return "list of words"

    def shown(value: Any) -> str:
        if schema.get("format") == "bytes":
            return _exactly(value)
        return f"{value} s" if schema.get("format") == "seconds" else str(value)

    if words := [shown(word) for word in schema.get("enum", [])]:
        return ", ".join(words if len(words) <= FEW else [*words[:2], "…", words[-1]])
    return f"{shown(schema['minimum'])} to {shown(schema['maximum'])}"


def _exactly(size: int) -> str:
    """A size in the largest unit that it is a whole number of, as a plan takes it."""
    steps = next((n for n in (4, 3, 2, 1) if size and size % 1024**n == 0), 0)
    return f"{size // 1024**steps} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[steps]}"


def _names(names: Sequence[str], systems: Sequence[str]) -> str:
    """`all but tmpfs`, or the names."""
    missing = [name for name in systems if name not in names]
    if len(missing) <= 1:
        return f"all but {missing[0]}" if missing else "all"
    return ", ".join(names)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([text[0], "|---" * len(heads) + "|", *text[1:]])


def flags_of(rig: Rig, describe: dict[str, Any]) -> dict[str, list[str]]:
    """What `extra_mkfs` takes, by file system. Only a refusal tells it, so each is asked for nonsense: the
    agent refuses that before it touches anything."""
    names = [
        fs["name"]
        for fs in describe["filesystems"]
        if any(option["name"] == "extra_mkfs" for option in fs["options"])
    ]
    requests = [
        {
            "trial": {
                "trial": f"flags-{name}",
                "seed": 0,
                "spec": {
                    "stack": {"devices": [{"file": {"size": 1 << 30}}]},
                    "filesystem": {"type": name, "extra_mkfs": ["nonsense"]},
                    "phases": [{"mkfs": {}}],
                },
            }
        }
        for name in names
    ]
    said = subprocess.run(
        rig.argv("run"),
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    events = [json.loads(line) for line in said.splitlines()]
    advice = {event["trial"]: event["advice"] for event in events if event["event"] == "error"}
    found = {}
    for name in names:
        listed = advice[f"flags-{name}"].split("extra_mkfs takes: ")[1].split(", ")
        found[name] = [flag.replace(" VALUE", "=") for flag in listed]
    return found


def page(text: str, made: str) -> str:
    """The page with these tables between its marks."""
    begin, end = MARKS
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{made}\n\n{end}{rest.split(end)[1]}"


def main() -> None:
    """Prints the tables, or puts them into the page."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--write", action="store_true", help="put them into docs/options.md")
    write = arguments.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(state=folder, work=f"{folder}/work", privileged=False)
        describe = rig.describe()
        made = tables(describe, flags_of(rig, describe))
    if write:
        PAGE.write_text(page(PAGE.read_text(), made))
    else:
        print(made)


if __name__ == "__main__":
    main()
