"""Guests without root: an ordinary user boots one, builds an array in it, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdyno.guest import cache_folder
from tests.cli.fixtures import real_agent
from tests.guest.bench import MIB, SMALL, Bench, needs_guests, sparse, spec, tree

NOBODY = 65534


def _given(path: Path) -> None:
    """Everything below `path` is nobody's."""
    for found in (path, *path.rglob("*")):
        os.chown(found, NOBODY, NOBODY, follow_symlinks=False)


@pytest.fixture(scope="module")
def user() -> Iterator[Bench]:
    """An agent of an ordinary user: this one, or nobody where this one is root."""
    with tempfile.TemporaryDirectory(prefix="fsdyno-user-", dir="/var/tmp") as name:
        folder = Path(name)
        command = [str(real_agent())]
        cache = cache_folder()
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                pytest.skip("needs setpriv (util-linux), to be an ordinary user")
            # Neither the checkout nor root's cache need be open to others.
            shutil.copy(real_agent(), folder / "agent")
            shutil.copytree(cache / "kernels", folder / "cache" / "kernels", symlinks=True)
            cache = folder / "cache"
            _given(folder)
            command = [
                "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "--inh-caps=-all", str(folder / "agent"),
            ]  # fmt: skip
        bench = Bench(folder, command=command, cache=cache)
        try:
            needs_guests(bench.rig)
            yield bench
        finally:
            bench.close()


def test_the_agent_is_nobody_special(user: Bench) -> None:
    status = Path(f"/proc/{user.agent}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert "0" not in fields["Uid"].split()
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert user.rig.survey()["host"]["root"] is False


@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_an_array_with_a_volume_is_measured_without_root(user: Bench, filesystem: str) -> None:
    phases = [
        {"mkfs": {}}, {"mount": {}}, tree("create", sync="file"), {"remount": {"cold": True}}, tree("read"),
        {"unmount": {}}, {"check": {}},
    ]  # fmt: skip
    array = {"level": 5, "chunk": 64 << 10, "resync": "assume_clean"}
    trial = user.run(spec(filesystem, phases, sparse(384 * MIB, 3), array=array, lvm={})).ok()
    assert trial.built("array")["members"] == 3 and trial.built("lvm")["used"] == "all"
    assert trial.leaves("create", "flushes") >= 3 * SMALL["files"]


def test_written_images_are_filled_without_root(user: Bench) -> None:
    devices = [{"file": {"size": 64 * MIB, "backing": "written"}}]
    phases = [{"mkfs": {}}, {"mount": {}}, tree("create"), {"unmount": {}}, {"check": {}}]
    user.run(spec("ext4", phases, devices)).ok()
