"""A store with 20,000 trials must report in under 2 s (issue: speed and limits).

Makes a synthetic store (invented numbers, real code path for every byte) and times the report in a
fresh process, from start to printed table, as a user would meet it; then the parts.

    python bench/report_20000.py [--cells N] [--trials N] [--keep FILE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

_REPORT = """
import sys, time
begun = time.perf_counter()
from fsdyno.report.build import build
from fsdyno.report.terminal import text
from fsdyno.store import Store
with Store.open(sys.argv[1]) as store:
    report = build(store)
built = time.perf_counter()
shown = text(report)
print(f"{built - begun:.3f} {time.perf_counter() - built:.3f} {len(shown.splitlines())}")
"""


def fill(path: Path, cells: int, trials: int) -> None:
    """Fills a store with `trials` trials of `cells` cells; the events of a few rounds are used again."""
    from fsdyno.store import Store
    from tests.report.scenes import DESCRIBE, SYSTEMS, trial_events
    from tests.store.fixtures import record, start

    systems = [name for name in SYSTEMS if name != "tmpfs"]
    made = {(name, rnd): trial_events(name, rnd) for name in systems for rnd in range(8)}
    with Store.open(path, create=True) as store:
        store._connection.execute("PRAGMA synchronous = OFF")  # a synthetic store needs no fsync per trial
        names = [f"{systems[i % len(systems)]} {i}" for i in range(cells)]
        rounds = trials // cells
        reference = {"filesystem": names[0]}
        campaign = start(store, names, describe=DESCRIBE, rounds=rounds, reference=reference)
        for rnd in range(rounds):
            for cell in range(cells):
                record(store, campaign, cell, rnd, made[systems[cell % len(systems)], rnd % 8])
        store.finish(campaign, "complete")


def main() -> None:
    """Fills, times, prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--keep", type=Path, help="make the store here, or use the one that is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder) / "synthetic.sqlite"
        if not path.exists():
            begun = time.perf_counter()
            fill(path, given.cells, given.trials)
            took = time.perf_counter() - begun
            print(f"recording: {1000 * took / given.trials:.2f} ms per trial, without fsync")
        print(f"store: {path.stat().st_size / 2**20:.0f} MiB, {given.trials} trials, {given.cells} cells")
        for _ in range(3):
            begun = time.perf_counter()
            run = subprocess.run(
                [sys.executable, "-c", _REPORT, str(path)],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            whole = time.perf_counter() - begun
            built, shown, lines = run.stdout.split()
            print(f"report: {whole:.2f} s (build {built} s, table {shown} s, {lines} lines)")


if __name__ == "__main__":
    main()
