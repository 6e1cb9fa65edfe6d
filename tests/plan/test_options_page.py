"""docs/options.md is what the agent says, made by tools/options_table.py and never edited by hand."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fsdyno.rig import Rig

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("options_table", ROOT / "tools" / "options_table.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def flags(
    rig: Rig, tool: ModuleType, describe: dict[str, Any], tmp_path_factory: Any
) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("rig")
    # The same agent, in folders of its own.
    apart = Rig(rig.argv("run")[:1], state=folder / "state", work=folder / "work", privileged=False)
    found: dict[str, list[str]] = tool.flags_of(apart, describe)
    return found


def test_the_page_is_what_the_agent_says(
    tool: ModuleType, describe: dict[str, Any], flags: dict[str, list[str]]
) -> None:
    text = tool.PAGE.read_text()
    made = tool.page(text, tool.tables(describe, flags))
    assert made == text, "run tools/options_table.py --write with the agent of this checkout"


def test_every_option_of_every_file_system_has_a_row(tool: ModuleType, describe: dict[str, Any]) -> None:
    text = tool.PAGE.read_text()
    for fs in describe["filesystems"]:
        for option in fs["options"]:
            rows = [line for line in text.splitlines() if f"| `{option['name']}` |" in line]
            named = (row.split("|")[1].strip() for row in rows)
            assert any(
                fs["name"] in of.split(", ")
                or of == "all"
                or (of == "all but tmpfs" and fs["name"] != "tmpfs")
                for of in named
            ), (fs["name"], option["name"])


def test_an_option_that_changes_changes_the_page(
    tool: ModuleType, describe: dict[str, Any], flags: dict[str, list[str]]
) -> None:
    other = copy.deepcopy(describe)
    other["filesystems"][0]["options"][0]["help"] += " And more."
    assert tool.tables(other, flags) != tool.tables(describe, flags)
    other["filesystems"][0]["options"][0]["stage"] = "another stage"
    with pytest.raises(ValueError, match="another stage"):
        tool.tables(other, flags)
    fewer = {name: words[1:] for name, words in flags.items()}
    assert tool.tables(describe, fewer) != tool.tables(describe, flags)


def test_values_are_shown_as_a_plan_writes_them(tool: ModuleType) -> None:
    size = {"type": "integer", "format": "bytes", "minimum": 512, "maximum": 40000 << 20}
    assert tool.values(size) == "512 bytes to 40000 MiB"
    assert tool.values({"type": "boolean", "default": False}) == "true, **false**"
    assert tool.values({"type": "boolean"}) == "true, false"
    many = {"type": "string", "enum": [f"w{n}" for n in range(20)]}
    assert tool.values(many) == "w0, w1, …, w19"
