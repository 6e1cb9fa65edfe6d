"""A campaign killed fifty times, at random moments: the agent, the command line, or both at once.

What must hold, each time: before anything is cleaned, nothing stands but ledgers and empty folders; after
it, nothing at all, and no loop number of ours; what took over the names in the dead agent's ledger is as
it was; no complete round is lost or runs again. At the end every cell has one ok trial in each round.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from fsdyno.store import Store
from tests.cli.fixtures import Fsdyno
from tests.faults import traces
from tests.faults.decoys import Decoys
from tests.faults.hosts import attach, content, detach, mounted, sparse
from tests.faults.plans import plan
from tests.faults.traces import left_behind, processes, until

KILLS = 50
SEED = 20240229
ROUNDS = 16
CELLS = 2
WHOLE = Counter(product(range(1, ROUNDS + 1), range(CELLS)))


@pytest.fixture
def bystanders(fsdyno: Fsdyno) -> Iterator[None]:
    """Other people's things of every kind, beside ours all the time; they must not change."""
    others = fsdyno.folder / "others"
    others.mkdir()
    image = sparse(others / "fsdyno-0123456789abcdef.img", 32)
    device = attach(image)
    work = fsdyno.folder / "state" / "work"
    work.mkdir(parents=True, mode=0o700)
    work.parent.chmod(0o700)
    stray = work / "fsdyno-fedcba9876543210.img"
    stray.write_text("precious")
    try:
        subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
        with mounted(fsdyno.folder / "fsdyno-0123456789abcdef", "-o", "ro", device) as point:
            before = content(image), point.stat().st_dev
            yield
            assert (content(image), point.stat().st_dev) == before
        assert stray.read_text() == "precious"
        backing = Path(f"/sys/block/{device.name}/loop/backing_file").read_text().strip()
        assert backing == str(image)
    finally:
        stray.unlink(missing_ok=True)
        detach(device)


class Story:
    """One campaign and what became of it."""

    def __init__(self, fsdyno: Fsdyno) -> None:
        self.fsdyno = fsdyno
        self.folder = fsdyno.folder
        self.rounds: dict[int, set[str]] = {}
        self.finished = 0
        self.decoys: Counter[str] = Counter()
        (self.folder / "plan.toml").write_text(plan(rounds=ROUNDS, filesystems='["ext4", "xfs"]'))

    @property
    def store(self) -> Path:
        return self.folder / "fsdyno.sqlite"

    def begun(self) -> bool:
        if not self.store.exists():
            return False
        with suppress(Exception), Store.open(self.store) as store:
            return bool(store.campaigns())
        return False

    def start(self) -> subprocess.Popen[str]:
        resume = ["--resume"] if self.begun() else []
        return self.fsdyno.start("run", "plan.toml", "--quiet", *resume)

    def check(self) -> None:
        """The store is whole, and each round that was complete is so still, by the same trials."""
        if not self.begun():
            assert not self.rounds, "the campaign is lost"
            return
        with sqlite3.connect(self.store) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.close()
        with Store.open(self.store) as store:
            [campaign] = store.campaigns()
            trials = store.trials(campaign.id)
            now = {n: {t.id for t in trials if t.round == n} for n in store.complete_rounds(campaign.id)}
            for number, ids in self.rounds.items():
                assert now.get(number) == ids, f"complete round {number} is lost or ran again"
            self.rounds = now
            if campaign.status == "complete":
                assert Counter((t.round, t.cell) for t in trials if t.outcome == "ok") == WHOLE
                assert len(trials) == len(WHOLE)
                self.finished += 1
        if self.finished and len(self.rounds) == ROUNDS:
            self.store.unlink()
            self.rounds = {}


def die(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stray(folder: Path) -> list[str]:
    """What stands below the folder that is more than a ledger, an empty folder or an empty file of ours."""
    work = folder / "state" / "work"
    holds = [
        f"{path} holds data"
        for path in work.rglob("*")
        if path.name != "fsdyno-fedcba9876543210.img" and not path.is_dir() and path.stat().st_size
    ]
    agents = [f"process {pid}" for pid in processes(folder)]
    return agents + traces.mounts(folder / "state") + traces.loops(folder / "state") + holds


def nothing(folder: Path) -> bool:
    """Nothing of ours is left below the folder."""
    ours = [path for path in traces.files(folder) if not path.endswith("/fsdyno-fedcba9876543210.img")]
    return not ours and not stray(folder)


def kill_both(story: Story, moments: random.Random, say: str) -> None:
    process = story.start()
    with suppress(subprocess.TimeoutExpired):
        process.wait(moments.uniform(0.25, 1.6))
    # Now one first, now the other: whichever dies second may still act on the death of the first.
    if moments.random() < 0.5:
        process.kill()
        die(*processes(story.folder))
    else:
        die(*processes(story.folder))
        process.kill()
    process.communicate()
    die(*processes(story.folder))
    until(lambda: not stray(story.folder), f"{say}: before any cleaning, {stray(story.folder)}")
    entries = traces.ledger(story.folder)
    with Decoys(entries, story.folder / "others") as decoys:
        done = story.fsdyno("clean")
        assert done.returncode == Exit.OK, (say, done.stderr)
        decoys.check()
        story.decoys += decoys.kinds
    until(lambda: nothing(story.folder), f"{say}: after cleaning, {left_behind(story.folder)}")
    for number in set(traces.numbers(entries)) - decoys.numbers:
        assert not Path(f"/sys/block/loop{number}").exists(), f"{say}: loop{number} stays in the pool"


def kill_campaign(story: Story, moments: random.Random, say: str) -> None:
    """The agent notices the end of its input and takes everything down by itself."""
    process = story.start()
    with suppress(subprocess.TimeoutExpired):
        process.wait(moments.uniform(0.25, 1.6))
    process.kill()
    process.communicate()
    until(lambda: nothing(story.folder), f"{say}: without any cleaning, {left_behind(story.folder)}")


def kill_agent(story: Story, moments: random.Random, say: str) -> int:
    """The campaign goes on with a new agent, which cleans at its start. How many agents were killed."""
    process = story.start()
    killed = 0
    for _ in range(moments.randint(1, 4)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.3, 1.2))
        agents = processes(story.folder)
        die(*agents)
        killed += bool(agents)
    _, said = process.communicate()
    assert "Traceback" not in said
    # all rounds; some trials lost; killed before it said hello
    assert process.returncode in (Exit.OK, Exit.INCOMPLETE, Exit.AGENT), (say, said)
    if process.returncode == Exit.AGENT:
        assert story.fsdyno("clean").returncode == Exit.OK
    until(lambda: nothing(story.folder), f"{say}: after the campaign, {left_behind(story.folder)}")
    return killed


def test_fifty_kills_leave_nothing_and_lose_nothing(fsdyno: Fsdyno, bystanders: None) -> None:
    moments = random.Random(SEED)
    story = Story(fsdyno)
    kills = 0
    while kills < KILLS:
        say = f"kill {kills}"
        match moments.choice(["both", "both", "campaign", "agent"]):
            case "both":
                kill_both(story, moments, say)
                kills += 1
            case "campaign":
                kill_campaign(story, moments, say)
                kills += 1
            case _:
                kills += kill_agent(story, moments, say)
        story.check()
    if story.begun():
        done = fsdyno("run", "plan.toml", "--resume")
        assert done.returncode == Exit.OK, done.stderr
        assert fsdyno("report", "--json").returncode == Exit.OK
        story.check()
    assert story.finished > 0
    assert min(story.decoys[kind] for kind in ("file", "mount", "loop")) > 2, story.decoys
