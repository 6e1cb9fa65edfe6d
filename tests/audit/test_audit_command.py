"""`fsdyno audit` as it is typed: exit codes, records, JSON, and errors for people."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from tests.audit.made import CHUNK, Record, off, record
from tests.cli.fixtures import Fsdyno, real_agent


@pytest.fixture
def fsdyno(tmp_path: Path) -> Fsdyno:
    return Fsdyno(tmp_path, real_agent())


def sent(folder: Path, made: Record) -> str:
    (folder / "sent.json").write_text(json.dumps(made))
    return "sent.json"


def dangerous() -> Record:
    made = off(record(), dm_1=CHUNK)
    made["filesystem"]["barriers"] = {"on": False, "off_by": "nobarrier"}
    return made


@pytest.mark.parametrize(
    ("made", "code", "verdict"),
    [
        (record(), Exit.OK, "ok"),
        (off(record(), dm_1=CHUNK), Exit.ADVICE, "advice"),
        (dangerous(), Exit.DANGER, "danger"),
    ],
)
def test_the_exit_code_tells_the_verdict(
    fsdyno: Fsdyno, tmp_path: Path, made: Record, code: Exit, verdict: str
) -> None:
    done = fsdyno("audit", sent(tmp_path, made))
    assert (done.returncode, done.stderr) == (code, "")
    assert "recorded on nas, " in done.stdout
    told = fsdyno("audit", "sent.json", "--json")
    assert told.returncode == code and json.loads(told.stdout)["verdict"] == verdict


def test_what_was_not_seen_is_no_fault_but_is_told_last(fsdyno: Fsdyno, tmp_path: Path) -> None:
    made = record()
    made["unseen"] = [{"what": "superblock", "layer": "dm-1", "reason": {"message": "only root may"}}]
    done = fsdyno("audit", sent(tmp_path, made))
    assert done.returncode == Exit.OK
    assert "may have missed something" in " ".join(done.stdout.splitlines()[-2:])


def test_json_has_the_documented_keys(fsdyno: Fsdyno, tmp_path: Path) -> None:
    made = dangerous()
    made["unseen"] = [{"what": "superblock", "layer": "dm-1", "reason": {"message": "no", "advice": "root"}}]
    told = json.loads(fsdyno("audit", sent(tmp_path, made), "--json").stdout)
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    assert told["fsdyno_audit"] == 1 and told["target"] == "/srv"
    assert told["layers"] == made["layers"]
    for found in (told, told["findings"][0], told["unseen"][0]):
        for key in found:
            assert f"`{key}`" in page
    assert [found["rule"] for found in told["findings"]] == ["barriers-off", "extents"]
    assert set(told["findings"][0]) == {
        *("rule", "severity", "about", "found", "expected", "why", "command", "source", "cost")
    }
    assert told["unseen"][0]["rules"]


def test_a_store_that_cannot_be_asked_is_told_once_and_costs_no_finding(
    fsdyno: Fsdyno, tmp_path: Path
) -> None:
    (tmp_path / "bad.sqlite").write_text("no store\n")
    done = fsdyno("audit", sent(tmp_path, dangerous()), "--store", "bad.sqlite")
    assert done.returncode == Exit.DANGER and done.stdout.count("costs were not looked up") == 1
    told = json.loads(fsdyno("audit", "sent.json", "--store", "bad.sqlite", "--json").stdout)
    assert all("bad.sqlite" in found["cost"]["problem"] for found in told["findings"])
    assert (tmp_path / "bad.sqlite").read_text() == "no store\n"


def test_a_live_stack_is_read_and_saved_and_judged_the_same_elsewhere(fsdyno: Fsdyno) -> None:
    live = fsdyno("audit", ".", "--json", "--save", "mine.json")
    assert live.returncode in (Exit.OK, Exit.ADVICE, Exit.DANGER), live.stderr
    assert "wrote mine.json" in live.stderr
    saved = fsdyno("audit", "mine.json", "--json")
    assert (saved.returncode, saved.stdout) == (live.returncode, live.stdout)


def test_a_record_may_go_to_a_pipe_while_the_audit_is_still_told(fsdyno: Fsdyno, tmp_path: Path) -> None:
    sent(tmp_path, dangerous())
    done = fsdyno("audit", "sent.json", "--save", "-")
    assert done.returncode == Exit.DANGER
    assert json.loads(done.stdout) == dangerous()
    assert done.stderr.startswith("1 danger")
    both = fsdyno("audit", "sent.json", "--save", "-", "--json")
    assert both.returncode == Exit.USAGE and both.stdout == ""


def test_a_record_may_come_from_a_pipe(fsdyno: Fsdyno, tmp_path: Path) -> None:
    whole = fsdyno("audit", "-", given=json.dumps(dangerous()))
    assert (whole.returncode, whole.stderr) == (Exit.DANGER, "")
    assert whole.stdout == fsdyno("audit", sent(tmp_path, dangerous())).stdout
    for text, said in (("", "no whole JSON"), ("[1]", "no record"), (json.dumps({"name": 1}), "no record")):
        done = fsdyno("audit", "-", given=text)
        assert (done.returncode, done.stdout) == (Exit.CANNOT, "")
        assert done.stderr.startswith("fsdyno: standard input: ") and said in done.stderr


def test_a_terminal_is_no_pipe_and_is_not_waited_for(fsdyno: Fsdyno) -> None:
    ours, its = os.openpty()
    try:
        _, said = fsdyno.start("audit", "-", stdin=its).communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(its)
    assert "is a terminal" in said and "| fsdyno audit -" in said


def test_what_was_not_judged_is_no_success(fsdyno: Fsdyno, tmp_path: Path) -> None:
    """Live, and as a record."""
    live = fsdyno("audit", "/proc", "--save", "proc.json")
    assert live.returncode == Exit.CANNOT and live.stdout.startswith("nothing was judged: ")
    saved = fsdyno("audit", "proc.json", "--json")
    assert saved.returncode == Exit.CANNOT and json.loads(saved.stdout)["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["audit", "sent.json", "--save", ""], Exit.USAGE, "--save: is empty"),
        (["audit", "missing"], Exit.CANNOT, "missing"),
        (["audit", "missing.json"], Exit.CANNOT, "missing.json"),
        (["audit", ""], Exit.USAGE, "name a path"),
        (["audit", "broken.json"], Exit.CANNOT, "broken.json"),
        (["audit", "newer.json"], Exit.CANNOT, "newer fsdyno"),
        (["audit", "sent.json", "--save", "notes"], Exit.CANNOT, "notes"),
    ],
)
def test_errors_say_what_and_where(
    fsdyno: Fsdyno, tmp_path: Path, words: list[str], code: Exit, said: str
) -> None:
    sent(tmp_path, record())
    (tmp_path / "broken.json").write_text(json.dumps(record())[:999])
    (tmp_path / "newer.json").write_text(json.dumps({**record(), "fsdyno_record": 9}))
    (tmp_path / "notes").write_text("mine\n")
    done = fsdyno(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("fsdyno: ") and said in done.stderr
    assert (tmp_path / "notes").read_text() == "mine\n"


def test_the_agent_is_started_twice_at_most(tmp_path: Path) -> None:
    """For its schema, and for the stack."""
    counting = tmp_path / "agent"
    counting.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/starts\nexec {real_agent()} "$@"\n')
    counting.chmod(0o755)
    fsdyno, starts = Fsdyno(tmp_path, counting), tmp_path / "starts"

    def started(*words: str) -> list[str]:
        starts.write_text("")
        assert fsdyno("audit", *words).returncode in (Exit.OK, Exit.ADVICE, Exit.DANGER)
        return starts.read_text().splitlines()

    live = started(".", "--save", "mine.json")
    assert len(live) == 2 and sum("survey --stack" in line for line in live) == 1
    assert [line.split()[-1] for line in started("mine.json")] == ["schema"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root sees everything")
def test_without_root_what_could_not_be_seen_is_told(fsdyno: Fsdyno) -> None:
    assert "could not be seen" in fsdyno("audit", "/").stdout


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    import subprocess
    import sys

    sent(tmp_path, dangerous())
    code = (
        "import sys; from fsdyno.cli import cli\n"
        "try: cli(['audit', 'sent.json'], standalone_mode=False)\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    environment = {
        **os.environ,
        "FSDYNO_AGENT": str(real_agent()),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "danger" in done.stdout
    assert not {"numpy", "scipy", "rich", "jinja2", "sqlite3"} & set(done.stderr.split())
