"""Commands are pasted into shells of root: a name in a record, which anybody may have made, is one word in
them and nothing else."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from fsdyno.audit import audit
from fsdyno.audit.rules import read_ahead
from fsdyno.audit.stack import Stack
from tests.audit.made import CHUNK, judged, named, off, record
from tests.audit.small import GIB, OPTIONS, THROUGH, array, layer, stack

HOSTILE = r"/dev/x\!y"  # what a record may call a device


def hostile(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "node": HOSTILE} for one in layers]


STACKS = {
    "degraded": stack(hostile(array("raid5", degraded=1))),
    "rebuilding": stack(hostile(array("raid5", degraded=1, sync_action="recover"))),
    "resyncing": stack(hostile(array("raid5", sync_action="resync"))),
    "no bitmap": stack(hostile(array("raid5", bitmap="none", member_size=200 * GIB))),
    "read-only": stack(hostile(array("raid5", array_state="readonly"))),
    "broken": stack(hostile(array("raid5", array_state="broken"))),
    "no barriers": stack(hostile([layer("sda")]), barriers={"on": False}),
    "misaligned": stack(hostile([layer("sda", alignment_offset=512)])),
    "discards stop": stack(
        hostile([layer("md0", "md", ["sda"]), layer("sda", discard_max_bytes=GIB)]), options=OPTIONS
    ),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_node_is_one_word_of_a_command(name: str) -> None:
    commands = [found.finding.command for found in audit(STACKS[name]).found]
    with_node = [command for command in commands if "y" in command and "x" in command and "dev" in command]
    assert with_node
    for command in with_node:
        assert HOSTILE in shlex.split(command.rpartition(": ")[2]), command


@pytest.mark.parametrize(
    "of",
    [
        stack([layer("dm-0", "lvm", ["c!d0"], write_cache=THROUGH), layer("c!d0")]),
        stack([layer("c!d0", scheduler="bfq", facts={"driver": "scsi"})]),
        stack(
            [
                {
                    **layer(
                        "c!d0", "md", facts={"level": "raid5", "mismatch_cnt": 8, "last_sync_action": "check"}
                    )
                }
            ]
        ),
    ],
    ids=["cache", "scheduler", "check"],
)
def test_a_file_of_sysfs_is_one_word_of_a_command(of: Stack) -> None:
    [found] = audit(of).found
    [path] = [word for word in shlex.split(found.finding.command) if word.startswith("/sys/")]
    assert path.startswith(f"/sys/block/{'c!d0' if 'dm-0' not in path else 'dm-0'}/")
    assert "!" not in path or f"'{path}'" in found.finding.command


def test_an_array_with_stripes_is_one_word_of_a_command() -> None:
    made = off(record(), md0=CHUNK)
    named(made, "md0")["node"] = "/dev/md/a b"
    [found] = judged(made).found
    assert found.finding.command.endswith("fsdyno align --device '/dev/md/a b'")


def test_an_interface_of_read_ahead_is_one_word_of_a_command() -> None:
    [finding] = read_ahead.RULE.judge(stack([layer("sda")], read_ahead=8 << 10, bdi="$(reboot)"))
    assert finding.command.endswith("'/sys/class/bdi/$(reboot)/read_ahead_kb'")
