"""What a person sees: commands, answers, errors with their exit codes, never a traceback."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fsdyno.cli import STORE, cli
from fsdyno.errors import Exit
from fsdyno.store import DEFAULT_PATH, Store
from tests.cli.fixtures import PLAN, Fsdyno, double


def on_double(folder: Path, *behave: str) -> Fsdyno:
    (folder / "plan.toml").write_text(PLAN)
    return Fsdyno(folder, double(folder, *behave))


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, fsdyno.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "scipy", "rich", "plotly", "jinja2", "sqlite3"} & set(loaded)


def test_the_command_line_and_the_store_agree_on_the_default_file() -> None:
    assert STORE == DEFAULT_PATH


def test_every_command_and_exit_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for name, command in cli.commands.items():
        for sub in getattr(command, "commands", {"": None}):
            assert f"`fsdyno {name} {sub}".rstrip() in page
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert documented == {int(code) for code in Exit}


def test_a_run_ends_with_the_answer_and_is_reported_again_in_every_form(tmp_path: Path) -> None:
    fsdyno = on_double(tmp_path, "--effects", '{"\\"xfs\\"": 2.0}')
    done = fsdyno("run", "plan.toml", "--rounds", "6")
    assert done.returncode == 0, done.stderr
    assert "Which is fastest?" in done.stdout and "xfs" in done.stdout
    assert done.stderr.count("\n[") == 18 and "left)" in done.stderr, "one plain line per trial"

    assert fsdyno("report").stdout == done.stdout
    answer = json.loads(fsdyno("report", "--json").stdout)
    assert answer
    rows = list(csv.reader(io.StringIO(fsdyno("report", "--csv").stdout)))
    assert len(rows) > 3
    assert fsdyno("report", "--html", "r.html").returncode == 0
    assert "<html" in (tmp_path / "r.html").read_text().lower()
    assert "create" in fsdyno("report", "--phase", "create").stdout

    with Store.open(tmp_path / STORE) as store:
        trial = store.trials(store.campaign().id)[0].id
    assert trial in fsdyno("show", trial[:8]).stdout
    assert json.loads(fsdyno("show", trial, "--json").stdout)["events"]
    assert fsdyno("show", trial, "--shell").stdout.startswith("#!")
    assert "complete" in fsdyno("store", "list").stdout
    assert "18 trials" in fsdyno("store", "rebuild").stdout
    assert fsdyno("report").stdout == done.stdout


def test_quiet_prints_the_result_only(tmp_path: Path) -> None:
    done = on_double(tmp_path)("run", "plan.toml", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Which is fastest?" in done.stdout


def test_plan_show_touches_nothing(tmp_path: Path) -> None:
    done = on_double(tmp_path)("plan", "show", "plan.toml")
    assert done.returncode == 0 and "Which is fastest?" in done.stdout and "tmpfs" in done.stdout
    assert not (tmp_path / STORE).exists()


def test_env_prints_the_survey(tmp_path: Path) -> None:
    fsdyno = on_double(tmp_path)
    survey = json.loads(fsdyno("env", "--json").stdout)
    text = fsdyno("env").stdout
    assert all(fs["name"] in text for fs in survey["filesystems"])


def test_env_gives_the_reason_and_the_package_for_each_no(tmp_path: Path) -> None:
    survey = json.loads(on_double(tmp_path)("env", "--json").stdout)
    survey["filesystems"][0]["places"]["native"] = {
        "able": False,
        "reason": {"message": "no driver in this kernel", "advice": "load its module"},
    }
    survey["tools"]["mkfs.odd"] = {"package": "odd-progs"}
    (tmp_path / "survey.json").write_text(json.dumps(survey))
    text = on_double(tmp_path, "--survey", str(tmp_path / "survey.json"))("env").stdout
    assert "no driver in this kernel" in text and "load its module" in text and "odd-progs" in text


def test_bench_measures_a_directory(tmp_path: Path) -> None:
    done = on_double(tmp_path)("bench", tmp_path, "--rounds", "2")
    assert done.returncode == 0, done.stderr
    assert "random read" in done.stdout and "2 of 2 rounds" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run"], Exit.USAGE, "Missing argument"),
        (["rnu", "plan.toml"], Exit.USAGE, "No such command"),
        (["run", "plan.toml", "--rounds", "0"], Exit.USAGE, "--rounds"),
        (["run", "missing.toml"], Exit.PLAN, "missing.toml"),
        (["run", "broken.toml"], Exit.PLAN, "broken.toml"),
        (["run", "plan.toml", "--resume"], Exit.STORE, "fsdyno.sqlite"),
        (["run", "plan.toml", "--store", "plan.toml"], Exit.STORE, "plan.toml"),
        (["bench", "missing"], Exit.CANNOT, "does not exist"),
        (["bench", "plan.toml"], Exit.CANNOT, "no directory"),
        (["report"], Exit.STORE, "fsdyno.sqlite"),
        (["show", "abc", "--store", "broken.toml"], Exit.STORE, "broken.toml"),
        (["store", "rebuild"], Exit.STORE, "fsdyno.sqlite"),
    ],
)
def test_each_mistake_has_a_message_and_its_exit_code(
    tmp_path: Path, words: list[str], code: Exit, said: str
) -> None:
    fsdyno = on_double(tmp_path)
    (tmp_path / "broken.toml").write_text("question = \n")
    done = fsdyno(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("busy", Exit.BUSY),
        ("unsafe", Exit.UNSAFE),
        ("wrong_protocol", Exit.AGENT),
        ("garbage", Exit.AGENT),
        ("fails@1", Exit.INCOMPLETE),
        ("teardown_failed@1", Exit.TEARDOWN),
    ],
)
def test_each_fault_of_the_agent_has_its_exit_code(tmp_path: Path, fault: str, code: Exit) -> None:
    done = on_double(tmp_path, "--behave", fault)("run", "plan.toml")
    assert done.returncode == code, done.stderr
    assert done.stderr.strip()


def test_what_never_begins_leaves_no_store(tmp_path: Path) -> None:
    survey = json.loads(on_double(tmp_path)("env", "--json").stdout)
    for found in survey["filesystems"]:
        for place in found["places"]:
            found["places"][place] = {"able": False, "reason": {"message": "no driver"}}
    (tmp_path / "survey.json").write_text(json.dumps(survey))
    cannot = on_double(tmp_path, "--survey", str(tmp_path / "survey.json"))("run", "plan.toml")
    assert cannot.returncode == Exit.CANNOT and "no driver" in cannot.stderr
    assert on_double(tmp_path, "--behave", "busy")("run", "plan.toml").returncode == Exit.BUSY
    assert not (tmp_path / STORE).exists()


def test_no_agent_says_how_to_build_one(tmp_path: Path) -> None:
    done = Fsdyno(tmp_path, tmp_path / "nothing")("env")
    assert done.returncode == Exit.AGENT and "FSDYNO_AGENT" in done.stderr


def test_ctrl_c_says_how_to_go_on_and_the_advice_works(tmp_path: Path) -> None:
    fsdyno = on_double(tmp_path, "--pace", "0.2")
    process = fsdyno.start("run", "plan.toml")
    assert process.stderr
    while not process.stderr.readline().startswith("["):
        pass
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == Exit.INTERRUPTED
    [advice] = re.findall(r"go on with: fsdyno (.*)", said)
    done = fsdyno(*advice.split())
    assert done.returncode == 0, done.stderr
    assert "resumed" in done.stderr
