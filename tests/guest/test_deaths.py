"""Guests and their agents that die, hang, are stopped or never come up: each time there is a recorded
outcome with a reason, the next trial gets a fresh guest, and nothing is left on the rig.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.guest import cache_folder
from fsdyno.rig import Event, Rig
from tests.cli.fixtures import real_agent
from tests.faults.hosts import mounted
from tests.faults.traces import ledger, until
from tests.guest.bench import (
    MIB,
    Bench,
    Trial,
    guests,
    needs_guests,
    sparse,
    spec,
    traces,
    tree,
)

DEVICES = sparse(256 * MIB)
SHORT = [{"mkfs": {}}, {"mount": {}}, tree("create")]
ENDLESS = {"name": "endless", "workload": {"random": {"op": "read", "dataset": "small", "runtime": 300}}}
LONG = [*SHORT, ENDLESS]


When = Callable[[Bench, Callable[[], object]], Callable[[Event], None]]


def short(**more: Any) -> dict[str, Any]:
    return spec("ext4", SHORT, DEVICES, **more)


def long(**more: Any) -> dict[str, Any]:
    return spec("ext4", LONG, DEVICES, **more)


def at_phase(bench: Bench, act: Callable[[], object]) -> Callable[[Event], None]:
    """Does it when the endless phase has run for a second."""
    done = False

    def on_event(event: Event) -> None:
        nonlocal done
        if event["event"] == "heartbeat" and event.get("index") == len(SHORT) and not done:
            done = True
            act()

    return on_event


def at_boot(bench: Bench, act: Callable[[], object]) -> Callable[[Event], None]:
    """Does it when a guest has begun to boot and is not up yet."""
    done = False

    def on_event(event: Event) -> None:
        nonlocal done
        if event.get("doing") == "booting the guest" and not done and guests(bench.agent):
            done = True
            act()

    return on_event


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real kernels, and newer ones that are not whole: no JSON, no image, another shape, no manifest."""
    cache = tmp_path_factory.mktemp("cache")
    kernels = cache / "kernels"
    kernels.mkdir()
    if (cache_folder() / "kernels").is_dir():
        for kernel in (cache_folder() / "kernels").iterdir():
            (kernels / kernel.name).symlink_to(kernel)
    about = {"release": "99.1", "source": "nowhere", "image": "vmlinuz", "modules": "lib"}
    for name, text in (
        ("99.1", json.dumps(about)), ("99.2", '{"release": "99.2", "sou'), ("99.3", '["99.3"]'),
        ("99.4", "\0"), ("99.5", None),
    ):  # fmt: skip
        (kernels / name).mkdir()
        if text is not None:
            (kernels / name / "kernel.json").write_text(text)
    return cache


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Bench]:
    """An agent that survives all of it."""
    bench = Bench(tmp_path_factory.mktemp("rig"), cache=cache)
    try:
        needs_guests(bench.rig)
        yield bench
    finally:
        bench.close()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Bench]:
    """An agent for one test, which may kill it. The test ends with nothing left behind."""
    bench = Bench(tmp_path)
    needs_guests(bench.rig)
    yield bench
    bench.session.kill()
    bench.rig.clean()
    assert traces(tmp_path) == []


def fresh(bench: Bench, than: Trial | None = None) -> Trial:
    """The next trial goes well, in a guest that was booted for it."""
    trial = bench.run(short()).ok()
    assert trial.built("machine")["fresh"] is True
    assert than is None or trial.boot != than.boot
    return trial


def kill(pids: list[int], with_: signal.Signals) -> None:
    assert pids, "there is no guest"
    for pid in pids:
        os.kill(pid, with_)


def test_a_killed_guest_is_a_failure_with_its_last_words_and_the_next_trial_goes_on(rig: Bench) -> None:
    died = rig.run(long(), on_event=at_phase(rig, lambda: kill(guests(rig.agent), signal.SIGKILL)))
    assert died.outcome == "failed"
    assert "the guest died; its last words: QEMU ended with signal: 9" in died.why
    assert died.phase("create")["outcome"] == "ok", "what was measured before is on record"
    fresh(rig, died)


def test_a_guest_that_hangs_is_timed_out_and_the_next_trial_goes_on(rig: Bench) -> None:
    said: list[str] = []

    def listen(event: Event, stop: Callable[[Event], None]) -> None:
        said.append(event.get("doing") or "")
        stop(event)

    stop = at_phase(rig, lambda: kill(guests(rig.agent), signal.SIGSTOP))
    hung = rig.run(long(), on_event=lambda event: listen(event, stop))
    assert hung.outcome == "timed_out" and "it hangs; its last words" in hung.why
    assert "waiting for a guest that says nothing" in said, "the rig did not fall silent with it"
    fresh(rig, hung)


def test_a_cancel_ends_a_phase_and_the_guest_serves_on(rig: Bench) -> None:
    running = rig.run(long(), on_event=at_phase(rig, rig.session.cancel))
    assert running.outcome == "cancelled" and running.phase("create")["outcome"] == "ok"
    after = rig.run(short()).ok()
    assert after.boot == running.boot and after.built("machine")["fresh"] is False


def test_a_cancel_ends_a_boot(rig: Bench) -> None:
    booting = rig.run(short(), round=1, on_event=at_boot(rig, rig.session.cancel))
    assert booting.outcome == "cancelled" and guests(rig.agent) == []


def test_a_guest_that_dies_while_it_boots_is_a_failure(rig: Bench) -> None:
    died = rig.run(short(), round=1, on_event=at_boot(rig, lambda: kill(guests(rig.agent), signal.SIGKILL)))
    assert died.outcome == "failed" and "the guest died before it was up" in died.why
    assert guests(rig.agent) == []


def test_a_second_campaign_on_the_same_rig_is_one_too_many(rig: Bench) -> None:
    with pytest.raises(UserError) as refused:
        Bench(rig.folder)
    assert refused.value.code == Exit.BUSY


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"memory": 64 * MIB}, ("64 MiB of memory", "at least 256 MiB")),
        ({"memory": 300 * MIB + 1}, ("whole MiB",)),
        ({"kernel": "1.2.3"}, ("no kernel 1.2.3", "guest setup")),
        ({"kernel": "99.2"}, ("no kernel 99.2",)),
    ],
)
def test_a_machine_that_cannot_be_is_refused(
    rig: Bench, machine: dict[str, Any], words: tuple[str, ...]
) -> None:
    trial = rig.run(short(machine=machine))
    assert trial.outcome in ("failed", "unsupported")
    assert all(word in trial.why for word in words), trial.why
    assert trial.reply.reason and trial.reply.reason["advice"]


def test_the_least_memory_is_enough(rig: Bench) -> None:
    if (size := real_agent().stat().st_size) > 40 * MIB:
        pytest.skip(f"an agent of {size // MIB} MiB is no release build, for which the limit is")
    rig.run(short(machine={"memory": 256 * MIB})).ok()


def test_kernels_that_are_not_whole_are_not_there(rig: Bench, cache: Path) -> None:
    releases = [kernel["release"] for kernel in rig.rig.survey()["kernels"]]
    assert releases and not [release for release in releases if release.startswith("99")]


def killed(mortal: Bench, when: When) -> Trial:
    """The agent is killed at that moment; a second later nothing may stand."""
    found: list[int] = []

    def die() -> None:
        found.extend(guests(mortal.agent))
        os.kill(mortal.agent, signal.SIGKILL)

    trial = mortal.run(long(), on_event=when(mortal, die))
    assert found, "there was a guest"
    assert trial.outcome == "lost"
    stands = lambda: [trace for trace in traces(mortal.folder) if "/ledger/" not in trace]  # noqa: E731
    until(lambda: not stands(), f"{stands()}")
    assert ledger(mortal.folder), "the dead agent's ledger says what there was"
    cleaned = mortal.rig.clean()
    assert cleaned["failed"] == [] and cleaned["live"] == 0, cleaned
    assert traces(mortal.folder) == []
    return trial


def test_an_agent_killed_while_a_guest_boots_leaves_nothing(mortal: Bench) -> None:
    killed(mortal, at_boot)


def test_an_agent_killed_in_a_phase_leaves_nothing(mortal: Bench) -> None:
    killed(mortal, at_phase)


def test_the_end_of_the_input_ends_the_trial_and_the_guest(mortal: Bench) -> None:
    went: list[bool] = []
    trial = mortal.run(long(), on_event=at_phase(mortal, lambda: went.append(mortal.session.close())))
    assert (trial.outcome, went) == ("cancelled", [True])
    assert traces(mortal.folder) == []


@pytest.mark.parametrize("backing", ["sparse", "written"])
def test_a_full_disk_is_told_with_an_advice(tmp_path: Path, backing: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small file system for the images")
    rig = tmp_path / "rig"
    rig.mkdir()
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=80m,mode=0700", "tmpfs") as small:
        bench = Bench(rig, work=small)
        try:
            needs_guests(bench.rig)
            devices = [{"file": {"size": 256 * MIB, "backing": backing}}]
            # More in all than the small file system has.
            loads = [{"op": "write", "dataset": name} for name in "abcde"]
            writes = [{"name": load["dataset"], "workload": {"stream": load}} for load in loads]
            phases: list[dict[str, Any]] = [{"mkfs": {}}, {"mount": {}}, *writes]
            wanted = spec("ext4", phases, devices)
            wanted["datasets"] |= {n: {"files": 1, "size": 24 * MIB} for n in "abcde"}
            trial = bench.run(wanted)
            assert trial.outcome == "failed", (trial.outcome, trial.why)
            assert trial.reply.reason and trial.reply.reason.get("advice"), trial.why
            if backing == "written":
                assert f"{small} has no room" in trial.why
            else:
                assert trial.phase("mkfs")["outcome"] == "ok"
        finally:
            bench.close()
        assert list(small.iterdir()) == []


def unsupported(bench: Bench) -> str:
    """Why no guest can run."""
    try:
        trial = bench.run(short())
        assert trial.outcome == "unsupported", trial.why
        return trial.why
    finally:
        bench.close()


@pytest.mark.root
def test_without_qemu_the_package_is_named(tmp_path: Path) -> None:
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        pytest.skip("there is no QEMU to hide")
    # In a mount namespace of its own something that does not run lies over it.
    hide = 'mount --bind /dev/null "$1" && shift && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", hide, "sh", qemu, str(real_agent())]
    assert "qemu-system-x86" in unsupported(Bench(tmp_path, command=command))
    survey = Rig(command, state=tmp_path / "state", privileged=False).survey()
    assert "qemu-system-x86" in str(survey["places"]["guest"]["reason"])


def test_without_a_kernel_the_command_that_gets_one_is_named(tmp_path: Path) -> None:
    assert "fsdyno guest setup" in unsupported(Bench(tmp_path, cache=tmp_path / "cache"))
