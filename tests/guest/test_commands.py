"""`fsdyno guest` as a person meets it, and the distribution's real kernel where it can be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from fsdyno.guest import kernels
from fsdyno.guest.package import release_of
from fsdyno.rig import Rig
from tests.guest.fixtures import RELEASE, deb, kernel_files, needs_kmod, tar

ROOT = Path(__file__).parents[2]


def guest(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "fsdyno", "guest", *words]
    return subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_setup_list_and_remove(tmp_path: Path) -> None:
    needs_kmod()
    package = deb(tmp_path / "k.deb", tar(kernel_files(tmp_path)))
    cache = ("--cache", str(tmp_path / "cache"))
    assert "guest setup" in guest("list", *cache).stdout
    made = guest("setup", "--deb", str(package), *cache)
    assert made.returncode == 0 and RELEASE in made.stdout, made.stderr
    assert "is there" in guest("setup", "--deb", str(package), *cache).stdout
    assert RELEASE in guest("list", *cache).stdout
    wrong = guest("remove", "../kernels", *cache)
    assert wrong.returncode == Exit.CANNOT and RELEASE in wrong.stderr
    assert guest("remove", RELEASE, *cache).returncode == 0
    assert kernels(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--package", "a", "--deb", "b"), Exit.USAGE),
        (("--kernel", "a"), Exit.USAGE),
        (("--config", "a"), Exit.USAGE),
        (("--package", "-o=x"), Exit.USAGE),
        (("--deb", "/nonexistent"), Exit.CANNOT),
        (("--deb", "/etc/passwd"), Exit.CANNOT),
    ],
)
def test_errors_say_what_to_do(tmp_path: Path, words: tuple[str, ...], code: Exit) -> None:
    done = guest("setup", *words, "--cache", str(tmp_path))
    assert done.returncode == code, done.stderr
    assert len(done.stderr.strip().splitlines()) >= 2, "the error, and advice"
    assert "Traceback" not in done.stderr


def test_missing_tools_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsdyno.errors import UserError
    from fsdyno.guest import Archive, modules, setup, tools

    monkeypatch.setattr(tools, "PATH", str(tmp_path))
    with pytest.raises(UserError, match="--kernel and --modules"):
        setup(tmp_path / "cache", lambda text: None, Archive())
    with pytest.raises(UserError, match="apt-get install kmod"):
        modules.need_tools()
    assert not (tmp_path / "cache").exists()


def test_releases_in_names_of_packages() -> None:
    for name, release in (
        ("linux-image-6.1.0-56-amd64", "6.1.0-56-amd64"),
        ("linux-image-6.1.0-56-amd64-unsigned", "6.1.0-56-amd64"),
        ("linux-image-unsigned-6.8.0-50-generic", "6.8.0-50-generic"),
        ("linux-modules-extra-6.8.0-50-generic", "6.8.0-50-generic"),
        ("linux-image-amd64", None),
        ("linux-doc-6.1", None),
        ("bash", None),
    ):
        assert release_of(name) == release


def test_the_agent_is_told_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FSDYNO_CACHE", raising=False)
    words = Rig(["agent"], cache=tmp_path, privileged=False).argv("survey")
    assert words[words.index("--cache") + 1] == str(tmp_path)
    monkeypatch.setenv("FSDYNO_CACHE", "/else")
    assert "/else" in Rig(["agent"], privileged=False).argv("survey")
    monkeypatch.delenv("FSDYNO_CACHE")
    assert "--cache" not in Rig(["agent"], privileged=False).argv("survey")
    monkeypatch.setattr("fsdyno.rig.rig._sudo_works", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", "/users/own")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    words = Rig(["agent"]).argv("survey")
    assert words[:3] == ["sudo", "-n", "--"]
    assert words[words.index("--cache") + 1] == "/users/own/fsdyno", "root's own would be another folder"


def test_the_distributions_kernel(tmp_path: Path) -> None:
    """The real package has all that the studies compare, and all that it needs."""
    done = guest("setup", "--cache", str(tmp_path))
    if done.returncode == Exit.CANNOT:
        pytest.skip(f"no kernel of the distribution: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (kernel,) = kernels(tmp_path)
    assert kernel.source.startswith("linux-image-")
    index = dict(line.split(":", 1) for line in (kernel.modules / "modules.dep").read_text().splitlines())
    built_in = (kernel.modules / "modules.builtin").read_text()
    names = {path.rsplit("/", 1)[-1].split(".ko")[0].replace("_", "-") for path in index}
    for wanted in (
        *("ext4", "xfs", "btrfs", "jfs", "reiserfs", "nilfs2", "f2fs", "fuse", "9p"),
        *("raid0", "raid1", "raid10", "raid456", "dm-mod", "virtio-blk", "virtio-console", "virtio-pci"),
    ):
        assert wanted in names or f"/{wanted}.ko" in built_in, wanted
    for path, needs in index.items():
        for file in (path, *needs.split()):
            assert (kernel.modules / file).is_file(), f"{path} needs {file}"
    assert kernel.size() < 300 << 20
    assert sorted(p.name for p in (tmp_path / "kernels").iterdir()) == [".lock", kernel.release]
