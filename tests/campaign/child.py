"""A campaign in a process of its own, so that a test can kill it: `child STORE FOLDER [resume]`."""

from __future__ import annotations

import sys
from pathlib import Path

from fsdyno.store import Store
from tests.campaign import bench

ROUNDS = 8


def main() -> None:
    store, folder, *rest = sys.argv[1:]
    rig = bench.rig(Path(folder), "--pace", "0.06")
    resume = "" if rest else None
    with Store.open(store, create=True) as opened:
        bench.run(bench.plan(rounds=ROUNDS), rig, opened, bench.Notebook(), resume=resume)


if __name__ == "__main__":
    main()
