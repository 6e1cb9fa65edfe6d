"""What fsdyno adds to a trial, beyond the tools and kernel calls that the trial needs.

Each round runs the same trial (a loop device on a sparse file, mkfs, mount, unmount, full check)
in two ways, in random order: through fsdyno with its store, and as the shell script that
`fsdyno show --shell` prints. The script pays for a shell and a few forks, so there is a stricter
figure too: all of a trial that is not inside a phase, making and removing the loop device included.

    python bench/trial_overhead.py [--rounds 15] [--filesystem ext4]
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from fsdyno.rig import Rig, RunSession
from fsdyno.store import Store

LIMIT = 0.150
"""What a trial may cost beyond its tools and kernel calls, s (issue 2, "Speed and limits")."""


def spec(filesystem: str) -> dict[str, Any]:
    """A trial that does nothing but what every trial must."""
    return {
        "stack": {"devices": [{"file": {"size": 512 << 20, "backing": "sparse"}}]},
        "filesystem": {"type": filesystem},
        "phases": [{"mkfs": {}}, {"mount": {}}, {"unmount": {}}, {"check": {}}],
    }


def main() -> None:
    """Measures and prints; exits 1 where the limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--filesystem", default="ext4")
    args = parser.parse_args()
    rig = Rig()
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "s.sqlite", create=True) as store:
        whole, outside, by_hand = measure(rig, store, args.filesystem, args.rounds, Path(folder))
    added = statistics.median(a - b for a, b in zip(whole, by_hand, strict=True))
    rest = statistics.median(outside)
    print(f"{args.filesystem}, {args.rounds} interleaved rounds, medians")
    print(f"  through fsdyno, recorded in the store   {statistics.median(whole) * 1e3:7.1f} ms")
    print(f"  the same commands in a shell            {statistics.median(by_hand) * 1e3:7.1f} ms")
    print(f"  difference, paired                      {added * 1e3:7.1f} ms   limit {LIMIT * 1e3:.0f} ms")
    print(
        f"  fsdyno outside its phases, loop device included {rest * 1e3:.1f} ms   limit {LIMIT * 1e3:.0f} ms"
    )
    raise SystemExit(0 if max(added, rest) < LIMIT else 1)


def measure(
    rig: Rig, store: Store, filesystem: str, rounds: int, folder: Path
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each round: whole trial, the part outside phases, the shell script."""
    describe = rig.describe()
    campaign = store.start_campaign(
        name="overhead",
        question="what does a trial cost?",
        plan_text="",
        cells=[{"index": 0, "name": filesystem, "label": {}, "spec": spec(filesystem), "what": "overhead"}],
        points=[],
        reference={},
        rounds=rounds,
        seed=0,
        where={},
        describe=describe,
        survey={},
        hello=None,
        version="bench",
        origin="bench/trial_overhead.py",
    )
    whole: list[float] = []
    outside: list[float] = []
    by_hand: list[float] = []
    session = rig.run()
    try:
        script = _shell(_trial(session, store, campaign, filesystem, 0)[1])  # also warms caches up
        for round_ in range(1, rounds + 1):
            for way in random.sample(["fsdyno", "shell"], 2):
                if way == "shell":
                    start = time.monotonic()
                    subprocess.run(["bash", "-e", "-c", script], check=True, capture_output=True)
                    by_hand.append(time.monotonic() - start)
                else:
                    seconds, events = _trial(session, store, campaign, filesystem, round_)
                    whole.append(seconds)
                    phases = sum(e["wall"] for e in events if e["event"] == "phase_end")
                    outside.append(seconds - phases)
    finally:
        session.close()
    return whole, outside, by_hand


def _trial(
    session: RunSession, store: Store, campaign: str, filesystem: str, round_: int
) -> tuple[float, list[dict[str, Any]]]:
    start = time.monotonic()
    trial = str(uuid.uuid4())
    began = time.time()
    reply = session.trial(trial, 1, spec(filesystem), timeout=120.0)
    store.record_trial(
        campaign,
        trial=trial,
        cell=0,
        round=round_,
        position=0,
        attempt=0,
        outcome=reply.outcome,
        reason=reply.reason,
        flags=[],
        started=began,
        ended=time.time(),
        events=reply.events,
    )
    if reply.outcome != "ok":
        raise SystemExit(f"the trial ended {reply.outcome}: {reply.reason}")
    return time.monotonic() - start, reply.events


def _shell(events: list[dict[str, Any]]) -> str:
    end = next(e for e in events if e["event"] == "end")
    return "\n".join(step["command"] for step in end["shell"])


if __name__ == "__main__":
    main()
