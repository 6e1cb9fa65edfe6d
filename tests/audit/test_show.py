"""An audit on the screen: what stands where, that it fits, and that what is pasted is what was meant."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsdyno.audit.rules import TABLE
from fsdyno.audit.show import show, verdict
from fsdyno.lines import NARROWEST, Line, clean, columns, pasteable, plain, rendered, wrap
from tests.audit.made import CHUNK, MIB, Record, judged, layer, named, no_costs, off, piece, record
from tests.audit.recorded import STACKS, load


def text(made: Record, width: int = 80) -> str:
    return rendered(show(judged(made), no_costs, width=width), colour=False)


def too_wide(lines: list[Line], width: int) -> list[str]:
    """Lines that are wider, but for those of one word that cannot be broken."""
    shown = [plain(line) for line in lines]
    return [one for one in shown if columns(one) > width and " " in one.strip().removesuffix(" \\")]


def test_the_verdict_comes_first_and_names_the_stack() -> None:
    assert text(off(record(), dm_1=CHUNK)).startswith(
        "1 piece of advice for /srv (ext4 on a volume on RAID 5)\n"
    )
    made = record()
    made["filesystem"]["barriers"] = {"on": False, "off_by": "nobarrier"}
    assert verdict(judged(off(made, dm_1=CHUNK))).startswith("1 danger, 1 piece of advice for /srv")
    made["mount"]["options"].append("sync")
    assert verdict(judged(off(made, dm_1=CHUNK))).startswith("1 danger, 2 pieces of advice for /srv")
    assert text(record()).startswith(f"nothing to mend: {len(TABLE)} rules looked at /srv")


def test_what_was_not_seen_is_not_praised() -> None:
    made = record()
    made["unseen"] = [{"what": "superblock", "layer": "dm-1", "reason": {"message": "only root may"}}]
    assert text(made).startswith("nothing to mend as far as it could be seen: ")
    made |= {"layers": [], "striped": []}
    assert text(made).startswith("nothing was judged: ")


def test_the_column_goes_from_the_mount_point_to_the_disks_with_offsets_in_kib() -> None:
    shown = text(off(record(), dm_1=CHUNK))
    places = [shown.index(word) for word in ("/srv    ext4", "dm-1 ", "md0 ", "4 × partition", "4 × disk")]
    assert places == sorted(places)
    assert "+13440 KiB, 64 KiB off the stripe" in shown, "of the volume in LVM's data"
    assert shown.count("+1024 KiB") == 2, "partitions in disks, and data on members: each once"
    assert "chunk 64 KiB × 3 data disks = stripe 192 KiB" in shown
    assert "4 × disk DISK  sda, sdb, sdc, sdd, 3 GiB each" in shown
    assert "write back, scheduler mq-deadline, sectors of 512 bytes on 4096" in shown


def test_members_that_differ_stand_apart() -> None:
    made = record()
    named(made, "sdb")["queue"]["write_cache"] = "write through"
    shown = text(made)
    assert "3 × partition" in shown and "├ +1024 KiB" in shown and "└ +1024 KiB" in shown
    assert "write through" in shown


def test_many_segments_are_a_few_and_a_count() -> None:
    made = record()
    made["layers"][0]["below"] = [piece("md0", MIB * (n + 1), start=MIB * n) for n in range(9)]
    assert "9 segments: +1024 KiB, +2048 KiB, +3072 KiB, …" in text(made)


def test_layers_that_are_met_twice_are_drawn_once() -> None:
    made = record()
    made["layers"][0]["below"] = [piece("md0", MIB), piece("sda", MIB, start=MIB)]
    assert "as above" in text(made)


def test_each_part_of_being_off_stands_where_it_is_from() -> None:
    shown = text(off(record(), dm_1=CHUNK, md0=4096))
    assert "+13440 KiB, 64 KiB off the stripe" in shown
    assert "LVM's data at +1152 KiB (4 KiB off the stripe)" in " ".join(shown.replace("│", " ").split())
    assert "off the stripe" not in text(off(record(), dm_1=CHUNK, md0=2 * CHUNK))


def test_a_file_system_on_several_devices_has_a_branch_for_each() -> None:
    made = record()
    made["filesystem"]["on"] = ["sda", "sdb"]
    made["layers"] = [named(made, "sda"), named(made, "sdb") | {"size": MIB}]
    made["striped"] = []
    shown = text(made)
    assert "ext4 on 2 devices" in shown and shown.count("one of 2 devices") == 2


def test_a_finding_says_found_expected_why_do_and_cost() -> None:
    shown = text(off(record(), dm_1=CHUNK))
    finding = shown[shown.index("1. advice") :]
    labels = [line.split()[0] for line in finding.splitlines()[1:] if line[:4] == "   " + line.strip()[:1]]
    assert labels == ["found", "expected", "why", "do", "cost"]
    assert "extents" in finding.splitlines()[0]


def test_dangers_come_first_and_notes_last() -> None:
    made = off(record(), dm_1=CHUNK)
    made["filesystem"]["barriers"] = {"on": False, "off_by": "nobarrier"}
    made["timers"] = [{"name": "mdcheck_start.timer", "from": "/etc/systemd/x"}]
    shown = text(made)
    assert shown.index("1. danger") < shown.index("2. advice") < shown.index("3. note")


def test_what_could_not_be_seen_is_told_by_what_would_change_it() -> None:
    made = record()
    reason = {"message": "only root may read it", "advice": "run it as root"}
    made["unseen"] = [{"what": "superblock", "layer": "dm-1", "reason": reason}]
    made["unseen"] += [{"what": "pv", "layer": f"sd{c}1", "reason": reason} for c in "abcd"]
    shown = text(made)
    assert "superblock of dm-1: only root" in shown and "pv of sda1, sdb1, sdc1, sdd1: only root" in shown
    assert shown.count("run it as root") == 1
    assert "may have missed something" in shown and "superblock-geometry" in shown.splitlines()[-1]


def test_of_a_record_it_is_said_at_the_end_that_its_commands_are_to_be_read() -> None:
    def sent(made: Record) -> list[str]:
        return rendered(show(judged(made), no_costs, recorded="recorded on nas"), colour=False).splitlines()

    assert "for nas" in sent(off(record(), dm_1=CHUNK))[-2]
    assert sent(off(record(), dm_1=CHUNK))[-1].endswith("read them before you type them")
    assert not any("read them" in line for line in sent(record())), "no command is shown"
    assert "read them" not in text(off(record(), dm_1=CHUNK)), "of a live stack they are fsdyno's own"


def test_names_cannot_move_the_cursor_or_make_lines() -> None:
    made = record()
    made["mount"]["point"] = "/srv\x1b[2J\n1. danger: \u202efake"
    made["layers"][0]["facts"]["volume"] = "a\rb\x9b1m"
    named(made, "sda")["facts"]["model"] = "X\x07\ty"
    shown = text(made)
    assert not {"\x1b", "\r", "\x07", "\x9b", "\u202e", "\t"} & set(shown)
    assert "\\x1b" in shown and not any(line.startswith("1. danger: ") for line in shown.splitlines())


def test_colour_is_nothing_but_styles_around_the_same_text() -> None:
    lines = show(judged(off(record(), dm_1=CHUNK)), no_costs)
    coloured = rendered(lines, colour=True)
    assert "\x1b[33m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == rendered(lines, colour=False)


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("stack", [None, *STACKS], ids=lambda path: path.stem if path else "made")
def test_no_line_is_wider_than_the_terminal(stack: Path | None, width: int) -> None:
    made = load(stack) if stack else off(record(), dm_1=CHUNK, md0=4096)
    lines = show(judged(made), no_costs, width=width)
    assert too_wide(lines, width) == []
    if width == 80:
        assert [shown for line in lines if len(shown := plain(line)) > width] == []


def test_long_names_are_wrapped_too() -> None:
    made = record()
    made["mount"]["point"] = "/srv/" + "deep/" * 40
    made["layers"].insert(1, layer("dm-9", "loop", [], backing_file="/x" * 90))
    made["layers"][0]["below"].append(piece("dm-9", 0, start=MIB))
    assert too_wide(show(judged(off(made, dm_1=CHUNK)), no_costs, width=60), 60) == []


def test_wide_characters_take_their_two_columns() -> None:
    made = record()
    made["mount"]["point"] = "/srv/" + "写真" * 30
    made["layers"][0]["facts"]["volume"] = "倉庫 の データ"
    lines = show(judged(made), no_costs, width=60)
    assert too_wide(lines, 60) == []
    assert any(58 < columns(plain(line)) <= 60 for line in lines)


@given(st.text(st.characters(exclude_characters="\xa0"), max_size=200), st.integers(NARROWEST, 80))
def test_wrapping_loses_nothing_but_spaces(text: str, width: int) -> None:
    rows = wrap(text, width)
    assert "".join(rows).replace(" ", "") == clean(text).replace(" ", "")
    assert all(columns(row) <= width for row in rows)


# Commands


def as_a_shell_reads_it(lines: list[str]) -> list[str]:
    """The words of a command, which is not run."""
    script = "printf '%s\\0' " + "\n".join(lines)
    told = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    return told.decode().split("\0")[:-1]


def test_a_command_is_broken_between_words_only() -> None:
    command = "mkfs -d su=64k,sw=10 -l size=32m --label='a long label of words' /dev/mapper/vg-data --force"
    lines = pasteable(command, 40)
    assert len(lines) > 1 and all(line.endswith(" \\") for line in lines[:-1])
    assert as_a_shell_reads_it(lines) == shlex.split(command)
    assert any("'a long label of words'" in line for line in lines)


def test_a_comment_is_one_on_every_line_and_keeps_what_is_to_be_typed_in_one() -> None:
    lines = pasteable(
        "# move the data elsewhere, then make it as this says: fsdyno align --device /dev/md0", 50
    )
    assert all(line.startswith("# ") for line in lines)
    assert any("fsdyno align --device /dev/md0" in line for line in lines)
    lines = pasteable("cat /proc/mdstat  # it rebuilds already, and isn't to be stopped meanwhile", 30)
    assert lines[0] == "cat /proc/mdstat" and all(line.startswith("# ") for line in lines[1:])


words = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="#"), min_size=1, max_size=30)


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=20), st.integers(20, 80))
def test_however_it_is_broken_a_shell_reads_the_same_command(given: list[str], width: int) -> None:
    command = shlex.join(given)
    assert as_a_shell_reads_it(pasteable(command, width)) == given


def test_a_mount_point_of_any_name_is_one_word_of_every_command() -> None:
    """The whole command line is not judged by its meaning: only that no part of the name gets loose."""
    point = "/srv/it's $(reboot); `reboot` & co"
    made = off(record(), dm_1=CHUNK)
    made["mount"]["point"] = point
    made["mount"]["options"] = ["rw", "sync", "dirsync", "nobarrier", "discard", "norecovery"]
    made["filesystem"] |= {"barriers": {"on": False, "off_by": "nobarrier"}}
    made["filesystem"]["upkeep"] |= {"errors": 3, "mounts": 400, "most_mounts": 30}
    made["mount"]["read_ahead"] = 8192
    commands = [judged.finding.command for judged in judged(made).found]
    assert len(commands) > 3
    for command in commands:
        if not command.startswith("#"):
            assert "reboot" not in command.replace(shlex.quote(point), ""), command
