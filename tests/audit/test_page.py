"""docs/audit.md, README.md and the table of rules: each rule is one file, has a source, is on the page."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fsdyno.audit import rules
from fsdyno.audit.rule import Rule
from fsdyno.audit.rules import TABLE
from fsdyno.errors import Exit
from tests.audit.recorded import STACKS, load

ROOT = Path(__file__).parents[2]
UNSEEN = {"superblock", "segments", "pv", "queue", "space", "pieces", "timers", "layer"}  # record.rs, Unseen


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_page", ROOT / "tools" / "audit_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_rules_say(tool: ModuleType) -> None:
    assert {path.name for path in tool.PAGES} == {"audit.md", "README.md"}
    for path in tool.PAGES:
        assert tool.page(path) == path.read_text(), "run tools/audit_page.py --write"


def test_the_readme_counts_the_rules() -> None:
    assert f"[{len(TABLE)} rules](docs/audit.md)" in (ROOT / "README.md").read_text()


def test_every_file_is_one_rule_of_its_name_and_has_a_row() -> None:
    folder = Path(rules.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {rule.name.replace("-", "_") for rule in TABLE} == files
    assert len({rule.name for rule in TABLE}) == len(TABLE)
    for rule in TABLE:
        assert rule.judge.__module__ == f"fsdyno.audit.rules.{rule.name.replace('-', '_')}"


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: rule.name)
def test_a_rule_has_a_title_a_source_and_known_needs(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert rule.title and len(rule.title) <= 70
    assert re.search(r"\(\d\)|Documentation/|drivers/|docs/|\.c\b|\.rst\b", rule.source), rule.source
    assert set(rule.needs) <= UNSEEN
    for path in re.findall(r"docs/\w+\.md", rule.source):
        assert (ROOT / path).is_file(), path
    if rule.evidence:
        assert (ROOT / rule.evidence.plan).is_file()


def test_the_unseen_kinds_are_those_of_the_agent() -> None:
    text = (ROOT / "agent" / "spec" / "src" / "record.rs").read_text()
    [listed] = re.findall(r"/// What: ([^.]*)\.", text)
    assert set(re.findall(r"`(\w+)`", listed)) == UNSEEN


def test_ids_in_records_are_those_that_the_page_names() -> None:
    """UUIDs and what is like them; a new kind of id is to be told before it is sent."""
    an_id = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-|[0-9A-Za-z]{32}")
    found = {key for path in STACKS for key, value in _texts(load(path)) if an_id.search(value)}
    assert found == {"host.boot", "layers.facts.uuid"}


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str):
        yield key, value


def test_the_exit_codes_stand_on_the_page() -> None:
    text = (ROOT / "docs" / "audit.md").read_text()
    for code in (Exit.OK, Exit.ADVICE, Exit.DANGER):
        assert f"| {int(code)} |" in text


def test_no_rule_names_a_file_system_or_computes_a_geometry() -> None:
    """Names of file systems are in the agent only, but in texts for people and in what the kernel shows."""
    folder = Path(rules.__file__).parent
    for path in [*folder.glob("*.py"), *folder.parent.glob("*.py")]:
        code = re.sub(r'"""[\s\S]*?"""|#.*|"[^"\n]*"', "", path.read_text())
        assert not re.search(r"\b(ext[234]|xfs|btrfs|f2fs|jfs|nilfs2?|reiserfs|ntfs)\b", code), path
