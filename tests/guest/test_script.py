"""Scripts in a guest of their own: what they say comes out apart, and none of them outlives its time."""

from __future__ import annotations

from fsdyno.rig import Rig
from tests.cli.fixtures import real_agent
from tests.guest.bench import needs_guests
from tests.guest.script import LATE, Completed, needs_runner, run_in_guest


def run(script: str, limit: float = 300) -> Completed:
    needs_guests(Rig([str(real_agent())], privileged=False))
    needs_runner()
    return run_in_guest(script, disks=2, size=64 << 20, variables={"GUEST_WORD": "a word"}, limit=limit)


def test_a_script_has_its_disks_its_variables_and_modules_with_parameters() -> None:
    script = """
    blockdev --getsize64 /dev/vd?
    echo "$GUEST_WORD" >&2
    load sd_mod
    load scsi_debug dev_size_mb=8 opt_blks=128 && cat /sys/module/scsi_debug/parameters/opt_blks
    touch /etc/of-the-host
    exit 7
    """
    done = run(script)
    assert (done.code, done.out.split()) == (7, [str(64 << 20)] * 2 + ["128"]), done.err
    assert done.err.splitlines()[0] == "a word" and "Read-only file system" in done.err


def test_a_script_that_hangs_is_ended_with_its_guest() -> None:
    done = run("echo up; sleep 600", limit=40)
    assert (done.code, done.out) == (LATE, "up\n"), done.err
    assert "not done within 40 s" in done.err
