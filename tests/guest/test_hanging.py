"""A device that does not answer: an audit says so and is over, however long the device takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.fixtures import real_agent
from tests.guest.script import NO_GUEST, needs_runner, run_in_guest

DELAY = 30  # seconds: of a device that fails, and of no audit

SCRIPT = """
for module in dm_mod dm_delay ext4; do load $module; done
agent=@agent@
see() { name=$1; shift; from=$(date +%s%N); out=$("$@" 2>/dev/null | tr '\\n' ' ')
        echo "@@ $name $(( ($(date +%s%N) - from) / 1000000 )) $out"; }
half=$(( $(blockdev --getsz /dev/vda) / 2 ))
see quick $agent survey --stack /dev/vda
dmsetup create --noudevsync slow --table "0 $half delay /dev/vda 0 @delay@000" || echo "@@ none 0 {}"
dmsetup mknodes
see slow $agent survey --stack /dev/mapper/slow
see align $agent align --device /dev/mapper/slow
dmsetup create --noudevsync bad --table "0 $half error"
dmsetup mknodes
see bad $agent survey --stack /dev/mapper/bad
echo "@@ end 0 {}"
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, tuple[int, dict[str, Any]]]:
    """Milliseconds and answers by name, of one boot."""
    needs_runner()
    script = SCRIPT.replace("@agent@", str(real_agent())).replace("@delay@", str(DELAY))
    done = run_in_guest(script, disks=1, size=64 << 20, limit=240)
    if done.code == NO_GUEST:
        pytest.skip(f"no guests here: {done.err}")
    lines = [
        found.groups() for line in done.out.splitlines() if (found := re.match(r"@@ (\w+) (\d+) (.*)", line))
    ]
    answers = {name: (int(took), json.loads(answer or "{}")) for name, took, answer in lines}
    if "none" in answers:
        pytest.skip(f"this kernel has no devices that are late: {done.err}")
    assert "end" in answers, f"the script did not come to its end: {done.out} {done.err}"
    return answers


def reasons(answer: dict[str, Any], what: str) -> list[str]:
    """Why something was not seen."""
    return [gap["reason"]["message"] for gap in answer["unseen"] if gap["what"] == what]


def test_a_device_that_hangs_is_told_and_not_waited_for(seen: dict[str, tuple[int, dict[str, Any]]]) -> None:
    took, answer = seen["slow"]
    assert any("did not answer" in reason for reason in reasons(answer, "superblock")), answer
    # Far from what the device takes; how far from what a quick one does is the machine's affair.
    assert took < DELAY * 1000 / 3, f"{took} ms, {seen['quick'][0]} ms without a delay"


def test_neither_is_it_when_advice_is_asked_for(seen: dict[str, tuple[int, dict[str, Any]]]) -> None:
    took, answer = seen["align"]
    assert "refused" in answer and took < DELAY * 1000 / 3


def test_a_device_that_fails_to_be_read_is_not_empty(seen: dict[str, tuple[int, dict[str, Any]]]) -> None:
    [reason] = reasons(seen["bad"][1], "superblock")
    assert "cannot be read" in reason and "os error 5" in reason
    [reason] = reasons(seen["quick"][1], "superblock")
    assert "no file system that is known here" in reason
