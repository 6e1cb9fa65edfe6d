"""How an answer is laid out: whatever the agent says, commands stay what they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fsdyno.align import exact, lines, title
from fsdyno.lines import plain


def shown(command: str) -> list[str]:
    """The lines that the only command of an answer takes."""
    step = {"kind": "mkfs", "command": command, "why": "so"}
    found = [plain(line) for line in lines({"array": {"level": 1, "members": 2}, "steps": [step]})]
    return found[found.index("  so") + 1 :]


@given(st.lists(st.text("abcdefgh=,/", min_size=1, max_size=40), min_size=1))
def test_lines_fit_where_words_do(words: list[str]) -> None:
    rows = shown(" ".join(words))
    assert all(len(row) <= 80 for row in rows)
    assert all(row.endswith(" \\") for row in rows[:-1]) and not rows[-1].endswith("\\")


def test_a_long_command_goes_on_behind_a_backslash() -> None:
    device = "/dev/disk/by-id/" + "x" * 50
    rows = shown(f"mkfs.ext4 -b 4096 -E stride=32,stripe_width=320 {device}")
    assert rows == ["    mkfs.ext4 -b 4096 -E stride=32,stripe_width=320 \\", f"      {device}"]


def test_sizes_are_whole() -> None:
    sizes = {1280 << 10: "1280 KiB", 5 << 20: "5 MiB", 1 << 30: "1 GiB", 512: "512 bytes", 0: "0 bytes"}
    assert {size: exact(size) for size in sizes} == sizes


def test_a_live_array_is_named() -> None:
    array = {"device": "/dev/md7", "level": 0, "members": 1}
    assert title(array) == "/dev/md7: RAID 0, 1 member"


def test_what_several_file_systems_share_is_printed_once_with_each_why() -> None:
    steps = [
        {"kind": "mount", "filesystem": name, "command": "mount /dev/md0 /mnt", "why": f"why of {name}"}
        for name in ("alpha", "beta")
    ]
    strange = {"kind": "incantation", "command": "true", "why": "a newer agent may say more"}
    answer = {"array": {"level": 1, "members": 2}, "steps": [*steps, strange]}
    found = [(plain(line).strip(), line[0][1]) for line in lines(answer) if line]
    mount = found.index(("Mount", "bold"))
    assert found[mount + 1 : mount + 4] == [
        ("alpha: why of alpha", "dim"),
        ("beta: why of beta", "dim"),
        ("mount /dev/md0 /mnt", "cyan"),
    ]
    assert ("incantation", "bold") in found and ("true", "cyan") in found


def test_warnings_come_before_everything_that_can_be_typed() -> None:
    told = ["/dev/md0 is in use: mounted on /srv", "it is lost"]
    step = {"kind": "pvcreate", "command": "pvcreate /dev/md0", "why": "because"}
    answer = {"array": {"level": 1, "members": 2}, "warnings": told, "steps": [step]}
    found = [plain(line).strip() for line in lines(answer)]
    assert found[1:3] == [f"! {text}" for text in told]
