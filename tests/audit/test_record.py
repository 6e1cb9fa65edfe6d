"""Records that somebody sends: what is believed, and what is refused with its file and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fsdyno.audit import record as records
from fsdyno.errors import UserError
from fsdyno.rig import Rig
from tests.audit.made import Record, named, piece, record
from tests.cli.fixtures import real_agent


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = Rig([str(real_agent())], privileged=False).schema()["record"]
    return found


def unasked() -> NoReturn:
    pytest.fail("the agent was asked for no record")


def written(folder: Path, content: object) -> Path:
    path = folder / "r.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_whole_record_is_read_as_it_is(tmp_path: Path, schema: dict[str, Any]) -> None:
    path = written(tmp_path, record())
    assert records.load(path, lambda: schema) == record()


def test_facts_of_a_newer_agent_are_kept(tmp_path: Path, schema: dict[str, Any]) -> None:
    made = record()
    made["layers"][0]["facts"]["novelty"] = {"deep": [1, None]}
    made["novelty"] = made["layers"][0]["novelty"] = True
    assert records.load(written(tmp_path, made), lambda: schema) == made


@pytest.mark.parametrize("node", ["/dev/mapper/a#b", "/dev/mapper/vg-a\\x20b", "/dev/cciss/c0d0", "/dev/..a"])
def test_a_node_may_have_any_name_that_devices_get(tmp_path: Path, schema: dict[str, Any], node: str) -> None:
    made = record()
    made["layers"][0]["node"] = node
    assert records.load(written(tmp_path, made), lambda: schema) == made


def _set(*path: str | int, value: Any) -> Callable[[Record], None]:
    def change(made: Any) -> None:
        for key in path[:-1]:
            made = made[key]
        made[path[-1]] = value

    return change


def _cyclic(made: Record) -> None:
    named(made, "sda")["below"] = [piece("md0", 0)]


def _tower(made: Record) -> None:
    made["layers"] = [
        {**made["layers"][0], "name": f"dm-{n}", "below": [piece(f"dm-{n + 1}", 0)]} for n in range(80)
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("fsdyno_record", value=2), ("form 2", "newer fsdyno")),
        (_set("fsdyno_record", value="1"), ("fsdyno_record",)),
        (_set("fsdyno_record", value=True), ("fsdyno_record",)),
        (_set("layers", value={}), ("layers", "array")),
        (_set("layers", 1, "size", value=-1), ("layers[1].size",)),
        (_set("layers", 1, "size", value=10**400), ("layers[1].size", "range")),
        (_set("layers", 1, "size", value=1.5), ("layers[1].size", "integer")),
        (_set("layers", 1, "kind", value="quantum"), ("layers[1].kind", "quantum")),
        (_set("layers", 1, "name", value="dm-1"), ("layers[1].name", "already")),
        (_set("layers", 1, "name", value="md0\x1b[2J"), ("layers[1].name",)),
        *(
            (_set("layers", 1, "node", value=node), ("layers[1].node",))
            for node in (
                "md0",
                "/dev/",
                "/dev//md0",
                "/dev/../etc/shadow",
                "/dev/md/..",
                "/dev/a\nb",
                "/dev/\x9b",
                "/dev/mapper/$(a)",
                "/dev/mapper/a;b",
            )
        ),
        (_set("layers", 0, "below", 0, "on", value="$(reboot)"), ("layers[0].below[0].on",)),
        (_set("layers", 1, "queue", "physical_block_size", value="4096"), ("physical_block_size", "number")),
        (_set("layers", 1, "queue", "physical_block_size", value=10**30), ("physical_block_size",)),
        (_set("layers", 1, "queue", "write_cache", value=[]), ("write_cache", "text")),
        (_set("layers", 1, "facts", "slots", value=[1]), ("layers[1].facts.slots",)),
        (_set("layers", 1, "facts", "slots", 0, "data_offset", value="1"), ("slots", "data_offset")),
        (_set("striped", 0, "chunk", value=None), ("striped[0].chunk",)),
        (_set("filesystem", "upkeep", "mounts", value="many"), ("filesystem.upkeep.mounts",)),
        (_set("host", value=None), ("host",)),
        *(
            (_set("filesystem", "commands", "check", value=command), ("filesystem.commands.check",))
            for command in ("e2fsck\nreboot", "e2fsck\treboot", "e2fsck\x1b[2K", "e2fsck \u202ex", "a\u2028b")
        ),
        (_cyclic, ("not below it",)),
        (_tower, ("64 layers",)),
    ],
)
def test_what_cannot_be_relied_on_is_refused_with_its_place(
    tmp_path: Path, schema: dict[str, Any], change: Callable[[Record], None], words: tuple[str, ...]
) -> None:
    made = record()
    change(made)
    path = written(tmp_path, made)
    with pytest.raises(UserError) as refused:
        records.load(path, lambda: schema)
    text = str(refused.value)
    assert text.startswith(str(path)) and refused.value.advice
    assert all(word in text for word in words), text


@pytest.mark.parametrize("key", sorted(record().keys() - {records.MARK}))
def test_a_missing_key_is_refused_by_its_name_or_not_needed(
    tmp_path: Path, schema: dict[str, Any], key: str
) -> None:
    made = record()
    del made[key]
    path = written(tmp_path, made)
    if key in schema["required"]:
        with pytest.raises(UserError, match=key):
            records.load(path, lambda: schema)
    else:
        assert records.load(path, lambda: schema) == made


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(record())[:-200],
        "",
        "[" * 100_000,
        '{"fsdyno_record": "\\ud800"}',
        "\x00",
        '{"fsdyno_record": NaN}',
    ],
)
def test_what_is_no_whole_json_is_no_live_path_either(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="name its folder"):
        records.load(written(tmp_path, text), unasked)


def test_a_file_that_no_record_can_be_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with path.open("wb") as file:
        file.truncate(records.LARGEST + 1)
    with pytest.raises(UserError, match="8 MiB"):
        records.load(path, unasked)


@pytest.mark.parametrize("text", ["{}", "\n  {}", "\ufeff{}"])
def test_a_record_is_one_by_its_content_whatever_its_name(
    tmp_path: Path, schema: dict[str, Any], text: str
) -> None:
    """Its keys may be in any order: the mark is not always the first."""
    made = dict(reversed(record().items()))
    for name in ("record", "sent.txt", "sent.json"):
        (tmp_path / name).write_text(text.format(json.dumps(made)))
        assert records.load(tmp_path / name, lambda: schema) == made
    (tmp_path / "record").write_text(json.dumps(made)[:-1])
    with pytest.raises(UserError, match="no whole JSON"):
        records.load(tmp_path / "record", unasked)


def test_other_files_folders_and_names_are_paths_of_live_stacks(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "data").write_text('{"broken')
    (tmp_path / "notes").write_text(f"what a {records.MARK} is: {json.dumps(record())}")
    names = ("folder.json", "data", "notes", "missing", "missing.json")
    for path in (tmp_path, *(tmp_path / name for name in names)):
        assert records.load(path, unasked) is None
    assert records.load(written(tmp_path, {"name": "a package"}), unasked) is None
    unmarked = {key: value for key, value in record().items() if key != records.MARK}
    assert records.load(written(tmp_path, unmarked), unasked) is None
    assert records.load(written(tmp_path, [1]), unasked) is None


# Saving


def test_a_record_is_saved_whole_and_replaces_only_records(tmp_path: Path, schema: dict[str, Any]) -> None:
    path = tmp_path / "r.json"
    records.save(record(), path)
    records.save(record(), path)
    assert records.load(path, lambda: schema) == record()
    assert [found.name for found in tmp_path.iterdir()] == ["r.json"]
    for other in ("notes\n", '{"a": 1}', ""):
        path.write_text(other)
        with pytest.raises(UserError, match="no record"):
            records.save(record(), path)
        assert path.read_text() == other


def test_a_link_stays_one_and_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to("deep/r.json")
    records.save(record(), link)
    assert link.is_symlink() and (tmp_path / "deep" / "r.json").is_file()
    with pytest.raises(UserError, match="cannot be written"):
        records.save(record(), tmp_path / "missing" / "r.json")
    with pytest.raises(UserError, match="no record"):
        records.save(record(), tmp_path / "deep")
