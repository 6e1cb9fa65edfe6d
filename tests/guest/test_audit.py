"""Stacks that are wrong on purpose, and right ones, built anew in one guest. On each wrong one `fsdyno audit`
itself runs there: it is found and named, and what it says to do is done and mends it. The right ones are read
by the agent there and judged here, since Python starts slowly under emulation: none raises a false alarm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from fsdyno.audit.rules import TABLE
from fsdyno.errors import Exit
from fsdyno.rig import Rig
from tests.audit import record
from tests.audit.recorded import STACKS, load
from tests.cli.fixtures import real_agent
from tests.guest.bench import needs_guests
from tests.guest.live import can_be_run
from tests.guest.script import ROOT, needs_runner

NAMED = {
    "partition-63": "partition-start",
    "second-volume-ext4": "extents",
    "second-volume-xfs": "extents",
    "foreign-stride": "superblock-geometry",
    "noalign-xfs": "superblock-geometry",
    "barriers-off": "barriers-off",
    "degraded": "array-state",
    "read-ahead-8k": "read-ahead",
}
"""What must be found whatever else there is: the stack, and the rule that names what is wrong with it."""

MENDED = {"barriers-off", "read-ahead-8k", "foreign-stride"}
"""Of these the finding's command is whole, and no comment: what cannot be mended without moving data is."""

RIGHT = [name for name in record.names() if name.startswith("right-")]
LIVE = [*NAMED, *RIGHT]
"""Built in each run. The others would double its time: `python -m tests.audit.record` builds them all, and
tests/audit/test_stacks.py judges what it recorded."""
VERDICTS = {"ok": Exit.OK, "advice": Exit.ADVICE, "danger": Exit.DANGER}


GUEST = "HOME=/run XDG_STATE_HOME=/run XDG_CACHE_HOME=/run XDG_CONFIG_HOME=/run PYTHONDONTWRITEBYTECODE=1"


@pytest.fixture(scope="module")
def live() -> dict[str, record.Recorded]:
    """All stacks as they stand in one guest, one after the other, the wrong ones audited and mended there."""
    needs_guests(Rig([str(real_agent())], privileged=False))
    needs_runner()
    variables = f"{GUEST} PYTHONPATH={quote(str(ROOT))} FSDYNO_AGENT=$GUEST_AGENT"
    audit = f"{variables} {quote(sys.executable)} {quote(str(ROOT / 'tests/guest/live.py'))} $TARGET"
    return {
        found.name: found for found in record.record(LIVE, f"case $name in {'|'.join(NAMED)}) {audit};; esac")
    }


@dataclass(frozen=True)
class Live:
    """`fsdyno audit` on a live stack: what it says, and once more when all was done that it says."""

    code: int
    audit: dict[str, Any]
    done: list[dict[str, Any]]
    again: dict[str, Any] | None


def audited(recorded: record.Recorded) -> Live:
    """What `live.py` told of a stack in the guest."""
    assert recorded.record is not None, recorded.why
    told = json.loads(recorded.after)
    assert told["first"]["audit"], told["first"]["err"]
    assert not told["again"] or told["again"]["audit"], told["again"]["err"]
    again = told["again"] and told["again"]["audit"]
    return Live(told["first"]["code"], told["first"]["audit"], told["done"], again)


def judged(recorded: record.Recorded, folder: Path) -> tuple[int, dict[str, Any]]:
    """What `fsdyno audit --json` says of a live stack, and its exit code."""
    assert recorded.record is not None, recorded.why
    file = folder / f"{recorded.name}.json"
    file.write_text(json.dumps(recorded.record))
    command = [sys.executable, "-m", "fsdyno", "audit", str(file), "--json"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "FSDYNO_AGENT": str(real_agent()), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def caught(name: str) -> set[str]:
    """Rules that find something in a stack."""
    return {rule.name for rule in TABLE if name in rule.caught}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_wrong_is_found_and_named(live: dict[str, record.Recorded], name: str) -> None:
    found = audited(live[name])
    assert {finding["rule"] for finding in found.audit["findings"]} == caught(name) != set()
    assert found.code == VERDICTS[found.audit["verdict"]]
    assert NAMED[name] in caught(name)


@pytest.mark.parametrize("name", NAMED)
def test_what_it_says_to_do_mends_it(live: dict[str, record.Recorded], name: str) -> None:
    found = audited(live[name])
    assert bool(found.done) == (name in MENDED), found.done
    for done in found.done:
        assert done["code"] == 0, done
    mended = {(f["rule"], f["about"]) for f in found.audit["findings"] if can_be_run(f["command"])}
    assert found.again is None or not mended & {(f["rule"], f["about"]) for f in found.again["findings"]}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_raises_no_false_alarm(
    live: dict[str, record.Recorded], tmp_path: Path, name: str
) -> None:
    code, audit = judged(live[name], tmp_path)
    assert (code, audit["verdict"], audit["findings"]) == (Exit.OK, "ok", [])


def test_ten_right_ones_are_built() -> None:
    assert len(RIGHT) >= 10


def test_barriers_off_above_a_volatile_cache_is_a_danger_and_said_first(
    live: dict[str, record.Recorded],
) -> None:
    found = audited(live["barriers-off"])
    assert (found.code, found.audit["findings"][0]["severity"]) == (Exit.DANGER, "danger")


@pytest.mark.parametrize("saved", [path for path in STACKS if path.stem in LIVE], ids=lambda path: path.stem)
def test_a_saved_record_still_tells_what_the_live_stack_tells(
    live: dict[str, record.Recorded], saved: Path
) -> None:
    recorded = live[saved.stem]
    assert recorded.record is not None, recorded.why
    assert lasting(recorded.record) == lasting(load(saved))


JUDGED = ("write_cache", "rotational", "logical_block_size", "physical_block_size", "optimal_io_size")
"""Of the queue; the rest differs from kernel to kernel."""


def lasting(record: dict[str, Any]) -> dict[str, Any]:
    """What a stack has each time that it is built: no ids, no times, no free space."""
    filesystem = record["filesystem"]
    return {
        "mount": {key: record["mount"][key] for key in ("point", "fstype", "options", "read_ahead")},
        "filesystem": {key: filesystem.get(key) for key in ("type", "known", "on", "barriers", "geometry")},
        "layers": [
            {key: layer[key] for key in ("name", "node", "kind", "size", "below")}
            | {key: layer["queue"].get(key) for key in JUDGED}
            for layer in record["layers"]
        ],
        "striped": record.get("striped"),
        "timers": record.get("timers"),
        "unseen": [unseen["what"] for unseen in record.get("unseen") or ()],
    }
