"""A kernel gets into the cache whole or not at all, whatever the package holds and whatever happens."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.guest import Debs, Files, cache_folder, ensure, kernels, remove, setup
from fsdyno.guest.cache import is_release
from tests.cli.fixtures import real_agent
from tests.guest.fixtures import RELEASE, deb, image, kernel_files, module, needs_kmod, quiet, tar

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    needs_kmod()
    return kernel_files(tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def put(cache: Path, data: bytes, **about: str) -> UserError | None:
    """Sets a kernel up from a package with this content; the error, if any."""
    package = deb(cache.parent / "k.deb", data, **about)
    try:
        setup(cache, quiet, Debs([package]))
    except UserError as error:
        assert error.advice, f"no advice: {error}"
        return error
    return None


def left(cache: Path) -> list[str]:
    """Everything below the kernels' folder but the lock."""
    return sorted(p.name for p in (cache / "kernels").iterdir() if p.name != ".lock")


def test_the_agent_finds_what_the_contract_promises(files: dict[str, bytes], cache: Path) -> None:
    assert put(cache, tar(files)) is None
    folder = cache / "kernels" / RELEASE
    about = json.loads((folder / "kernel.json").read_text())
    assert about.pop("config") == "config" and (folder / "config").read_bytes() == b"CONFIG_X=y\n"
    assert about == {
        "release": RELEASE,
        "source": f"linux-image-{RELEASE} 1.2",
        "image": "vmlinuz",
        "modules": f"lib/modules/{RELEASE}",
    }
    modules = folder / about["modules"]
    assert "kernel/fs/9p/9p.ko:" in (modules / "modules.dep").read_text()
    assert (modules / "modules.builtin").read_bytes() == files[f"./lib/modules/{RELEASE}/modules.builtin"]
    assert left(cache) == [RELEASE]
    assert ensure(cache, pytest.fail) == kernels(cache)[0]


def test_the_second_time_nothing_is_done_unless_asked(files: dict[str, bytes], cache: Path) -> None:
    assert put(cache, tar(files)) is None
    origin = Debs([cache.parent / "k.deb"])
    before = (cache / "kernels" / RELEASE).stat().st_ino
    (cache / "kernels" / ".new-left").mkdir()
    assert setup(cache, pytest.fail, origin).already
    assert (cache / "kernels" / RELEASE).stat().st_ino == before
    assert left(cache) == [RELEASE], "what a killed setup left is swept"
    assert not setup(cache, quiet, origin, fresh=True).already
    assert (cache / "kernels" / RELEASE).stat().st_ino != before
    assert left(cache) == [RELEASE]


def test_only_modules_that_can_load_are_kept(files: dict[str, bytes], cache: Path, tmp_path: Path) -> None:
    base = f"./lib/modules/{RELEASE}/kernel"
    files[f"{base}/fs/good/good.ko"] = module(tmp_path, "good", "helper,built_in_one")
    files[f"{base}/lib/helper.ko"] = module(tmp_path, "helper")
    files[f"{base}/fs/lame/lame.ko"] = module(tmp_path, "lame", "crutch")
    files[f"{base}/fs/lame/onlame.ko"] = module(tmp_path, "onlame", "lame")
    files[f"{base}/drivers/gpu/crutch.ko"] = module(tmp_path, "crutch")
    assert put(cache, tar(files)) is None
    index = (kernels(cache)[0].modules / "modules.dep").read_text()
    assert "kernel/fs/good/good.ko:" in index and "kernel/lib/helper.ko:" in index
    assert not any(name in index for name in ("lame", "crutch"))
    assert not list(cache.rglob("*lame*.ko")) and not list(cache.rglob("crutch*"))


@pytest.mark.parametrize(
    "name",
    [
        f"./lib/modules/{RELEASE}/kernel/fs/../../../../../../../escaped.ko",
        "./lib/modules/../kernel/fs/escaped.ko",
        f"/lib/modules/{RELEASE}/kernel/fs/escaped.ko",
        "../../../../../../../tmp/escaped.ko",
        "./boot/vmlinuz-../../escaped",
        f"./lib/modules/{RELEASE}/kernel/fs/./escaped.ko",
    ],
)
def test_no_member_leaves_its_place(files: dict[str, bytes], cache: Path, name: str) -> None:
    before = set(cache.parent.rglob("*"))
    assert put(cache, tar({**files, name: b"x"})) is None
    new = set(cache.parent.rglob("*")) - before
    assert not [path for path in new if "escaped" in path.name]
    assert all(cache in path.parents or path in (cache, cache.parent / "k.deb") for path in new)


def test_links_are_not_followed(files: dict[str, bytes], cache: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    links = {f"./lib/modules/{RELEASE}/kernel/fs": str(victim), f"./boot/vmlinuz-{RELEASE}": "/etc/passwd"}
    assert put(cache, tar(files, links)) is None
    assert not list(victim.iterdir())
    assert not any(path.is_symlink() for path in cache.rglob("*"))


def test_a_wrong_package_is_told_and_leaves_nothing(
    files: dict[str, bytes], cache: Path, tmp_path: Path
) -> None:
    boot = f"./boot/vmlinuz-{RELEASE}"
    base = f"./lib/modules/{RELEASE}"
    other = kernel_files(tmp_path, "6.9.9")
    modules_only = {name: data for name, data in files.items() if name != boot}
    for data, about, words in (
        (tar({"./usr/bin/bash": b"x"}), {}, "no package of a kernel"),
        (tar(modules_only), {}, "no kernel image"),
        (tar({boot: image()}), {}, "no modules"),
        (tar({**files, boot: image("6.9.9")}), {}, "are of release"),
        (tar({**files, f"{base}/kernel/fs/o.ko": module(tmp_path, "o", release="6.9.9")}), {}, "6.9.9"),
        (tar({**files, boot: b"x" * 4096}), {}, "no kernel image that QEMU can boot"),
        (tar({**files, boot: image(flags=0)}), {}, "32-bit"),
        (tar({**files, f"{base}/kernel/fs/o.ko": b"junk"}), {}, "cannot be read"),
        (tar({n: d for n, d in files.items() if "9pnet" not in n}), {}, "cannot serve a guest"),
        (tar({**files, "boot/" + boot.split("/")[-1]: b"x"}), {}, "two files"),
        (tar(other)[:3000], {}, "cannot be unpacked"),
        (tar(files), {"arch": "arm64"}, "arm64"),
    ):
        error = put(cache, data, **about)
        assert error and words in str(error), (words, error)
        assert error.code == Exit.CANNOT
        assert not (cache / "kernels").exists() or left(cache) == []


def test_mangled_packages_end_in_an_error_or_a_kernel(files: dict[str, bytes], cache: Path) -> None:
    """Whatever bytes change: no traceback, nothing half done."""
    random.seed(7)
    whole = deb(cache.parent / "k.deb", tar(files)).read_bytes()
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(random.choice((1, 8, 200))):
            # Headers are where it hurts.
            data[random.choice((random.randrange(len(data)), random.randrange(2000)))] = random.randrange(256)
        mangled = cache.parent / "m.deb"
        mangled.write_bytes(data[: random.choice((len(data), random.randrange(len(data))))])
        try:
            setup(cache, quiet, Debs([mangled]), fresh=True)
        except UserError as error:
            refused += 1
            assert error.advice
        there = left(cache) if (cache / "kernels").exists() else []
        assert there == [kernel.release for kernel in kernels(cache)][: len(there)]
    assert refused > 10


def test_own_files_serve_and_are_seen_to_change(files: dict[str, bytes], cache: Path, tmp_path: Path) -> None:
    assert put(cache, tar(files)) is None
    made = kernels(cache)[0]
    own, modules = tmp_path / "bzImage", tmp_path / "modules"
    own.write_bytes(made.image.read_bytes())
    modules.mkdir()
    (made.modules / "kernel").rename(modules / "kernel")
    remove(cache, RELEASE, quiet)
    origin = Files(own, modules)
    assert not setup(cache, quiet, origin).already
    assert setup(cache, pytest.fail, origin).already
    assert kernels(cache)[0].source == f"{own} with {modules}"
    own.write_bytes(image() + b"rebuilt")
    assert not setup(cache, quiet, origin).already
    for wrong in (Files(tmp_path / "none", modules), Files(own, tmp_path / "none"), Files(own, cache)):
        with pytest.raises(UserError) as error:
            setup(cache, quiet, wrong, fresh=True)
        assert error.value.code == Exit.CANNOT and error.value.advice
    assert left(cache) == [RELEASE]


def test_setups_at_once_do_not_break_each_other(files: dict[str, bytes], cache: Path) -> None:
    package = deb(cache.parent / "k.deb", tar(files))
    done: list[bool] = []
    some = [
        threading.Thread(target=lambda: done.append(setup(cache, quiet, Debs([package])).already))
        for _ in range(5)
    ]
    for thread in some:
        thread.start()
    for thread in some:
        thread.join()
    assert sorted(done) == [False, True, True, True, True], "one works, the others find its kernel"
    assert left(cache) == [RELEASE]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_setup_that_is_ended_leaves_no_kernel_behind(
    files: dict[str, bytes], cache: Path, number: signal.Signals
) -> None:
    files[f"./lib/modules/{RELEASE}/modules.builtin.modinfo"] = bytes(64 << 20)  # takes a moment
    package = deb(cache.parent / "k.deb", tar(files))
    argv = [sys.executable, "-m", "fsdyno", "guest", "setup", "--deb", str(package), "--cache", str(cache)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        while child.poll() is None and not list(cache.glob("kernels/.new-*/kernel/*")):
            time.sleep(0.005)
        child.send_signal(number)
        said = child.communicate()[0].decode()
    assert child.returncode in (-number, int(Exit.INTERRUPTED)), said
    assert "Traceback" not in said
    assert kernels(cache) == []
    if number != signal.SIGKILL:
        assert left(cache) == []
    assert put(cache, tar({n: d for n, d in files.items() if "modinfo" not in n})) is None
    assert left(cache) == [RELEASE]


def test_a_folder_without_a_whole_kernel_is_not_there(files: dict[str, bytes], cache: Path) -> None:
    assert put(cache, tar(files)) is None
    about = cache / "kernels" / RELEASE / "kernel.json"
    for text in ("", "{", "[]", "{}", '{"release": "other"}', "\x00"):
        about.write_text(text)
        assert kernels(cache) == []
    with pytest.raises(UserError):
        remove(cache, RELEASE, quiet)
    assert put(cache, tar(files)) is None, "it is made anew in its place"
    assert len(kernels(cache)) == 1


def test_newest_is_first_and_names_are_no_paths(files: dict[str, bytes], cache: Path, tmp_path: Path) -> None:
    some = ("6.1.0-9-x", "6.1.0-56-x", "6.10.0-1-x")
    for release in some:
        assert put(cache, tar(kernel_files(tmp_path, release)), name=f"linux-image-{release}") is None
    assert [kernel.release for kernel in kernels(cache)] == list(reversed(some))
    assert ensure(cache, pytest.fail, "6.1.0-9-x").release == "6.1.0-9-x"
    with pytest.raises(UserError, match="did you mean") as error:
        ensure(cache, pytest.fail, "6.1.0-55-x")
    assert error.value.code == Exit.CANNOT
    for bad in ("..", ".", "", "a/b", "../6.1.0-9-x", ".new-1", "a..b", "-x", "x" * 200, "a\n"):
        assert not is_release(bad)
    assert remove(cache, "6.1.0-9-x", quiet).release == "6.1.0-9-x"
    assert left(cache) == sorted(some[1:])


def test_both_halves_name_the_same_kernel_as_the_newest(cache: Path) -> None:
    newest_first = [
        "6.10.2-amd64",
        "6.1.0-9-cloud-amd64",
        "6.1.0-9-amd64",
        "6.1.0-rc2",
        "6.1.0-1-amd64",
        "6.1.0",
    ]
    for release in sorted(newest_first):
        folder = cache / "kernels" / release
        (folder / "m").mkdir(parents=True)
        for name in ("vmlinuz", "m/modules.dep"):
            (folder / name).touch()
        about = {"release": release, "source": "s", "image": "vmlinuz", "modules": "m"}
        (folder / "kernel.json").write_text(json.dumps(about))
    assert [kernel.release for kernel in kernels(cache)] == newest_first
    said = subprocess.run([real_agent(), "--cache", cache, "survey"], check=True, capture_output=True)
    assert [kernel["release"] for kernel in json.loads(said.stdout)["kernels"]] == newest_first


def test_the_cache_is_where_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FSDYNO_CACHE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cache_folder() == Path("/var/cache/fsdyno")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert cache_folder() == Path("/some/where/fsdyno")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/.cache/fsdyno")
    monkeypatch.setenv("FSDYNO_CACHE", "/else")
    assert cache_folder() == Path("/else") and cache_folder("/given") == Path("/given")


@pytest.mark.root
def test_a_full_disk_is_told_and_left_as_it_was(files: dict[str, bytes], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a small file system is mounted")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)], check=True)
    try:
        files[f"./lib/modules/{RELEASE}/modules.builtin.modinfo"] = bytes(1 << 20)
        package = deb(tmp_path / "k.deb", tar(files))
        with pytest.raises(UserError, match="no space left") as error:
            setup(small, quiet, Debs([package]))
        assert error.value.code == Exit.CANNOT and "--cache" in str(error.value)
        assert left(small) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
