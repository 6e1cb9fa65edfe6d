"""How long it takes until a trial in a guest begins its first phase: in a guest that must be booted, and
in one that runs already.

Seconds depend on the machine, so each is also told as a ratio to a bare boot of the same kernel by the same
QEMU, with an init that powers off at once: less than that no guest can take. Rounds are interleaved.

    python bench/guest_start.py [--rounds 3] [--memory 1024]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from fsdyno.rig import Event, Rig, RunSession

LIMITS = {"kvm": 3.0, "tcg": 20.0}
"""From the command to the first phase of the first trial, s (issue 3, "Speed and limits")."""

POWER_OFF = """
static long call(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
void _start(void) { for (;;) call(169, 0xfee1dead, 672274793, 0x4321fedc); }
"""
"""An init in C that does nothing but reboot(2) with RB_POWER_OFF."""


def spec(memory: int) -> dict[str, Any]:
    """A trial that does what every trial must."""
    return {
        "machine": {"memory": memory},
        "stack": {"devices": [{"file": {"size": 512 << 20, "backing": "sparse"}}]},
        "filesystem": {"type": "ext4"},
        "phases": [{"mkfs": {}}, {"mount": {}}, {"unmount": {}}],
    }


def main() -> None:
    """Measures and prints; exits 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=1024, help="of each guest, MiB")
    args = parser.parse_args()
    rig = Rig(privileged=False)
    guest = rig.survey()["places"]["guest"]
    if not guest["able"]:
        raise SystemExit(f"no guests here: {guest['reason']['message']} ({guest['reason'].get('advice')})")
    if not shutil.which("cc"):
        raise SystemExit("cc is missing, for the bare init: install gcc")
    first, later, bare = [], [], []
    with tempfile.TemporaryDirectory() as name:
        init = _init(Path(name))
        for _ in range(args.rounds):
            command = time.monotonic()
            session = rig.run()
            try:
                begun, machine = _begin(session, spec(args.memory << 20))
                first.append(begun - command)
                asked = time.monotonic()
                begun, _ = _begin(session, spec(args.memory << 20))
                later.append(begun - asked)
            finally:
                session.close()
            bare.append(_bare(machine["command"], init))
    limit = LIMITS[machine["accelerator"]]
    print(f"{machine['kernel']}, {machine['accelerator']}, {args.rounds} interleaved rounds, medians")
    found = statistics.median(first)
    for what, seconds in (
        ("bare boot, power off at once", bare),
        ("first trial, from the command", first),
        ("later trial, in the same guest", later),
    ):
        took = statistics.median(seconds)
        ratio = statistics.median(a / b for a, b in zip(seconds, bare, strict=True))
        print(f"  {what:32}{took:8.2f} s   {ratio:6.3f} of a bare boot")
    print(f"  limit of the first trial        {limit:8.2f} s")
    raise SystemExit(0 if found < limit else 1)


def _begin(session: RunSession, wanted: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """When the first phase began, and the facts of the guest that it ran in."""
    begun: list[float] = []

    def seen(event: Event) -> None:
        if event["event"] == "phase_start" and not begun:
            begun.append(time.monotonic())

    reply = session.trial(str(uuid.uuid4()), 1, wanted, timeout=600.0, on_event=seen)
    if reply.outcome != "ok":
        sys.exit(f"the trial ended {reply.outcome}: {json.dumps(reply.reason)}")
    [facts] = [e["facts"] for e in reply.events if e["event"] == "built" and e["part"] == "machine"]
    return begun[0], facts


def _bare(command: list[str], init: Path) -> float:
    """Seconds that the same QEMU takes with the same kernel, line, CPUs and memory, and our init."""
    kept = ["-machine", "-cpu", "-accel", "-m", "-smp", "-kernel", "-append"]
    words = [word for n, word in enumerate(command) if {word, command[n - 1]} & set(kept)]
    plain = ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"]
    argv = [command[0], *plain, *words, "-initrd", str(init), "-serial", "null"]
    start = time.monotonic()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=600)
    return time.monotonic() - start


def _init(folder: Path) -> Path:
    """An initramfs with nothing but an init that powers off."""
    source, program, archive = folder / "init.c", folder / "init", folder / "initramfs"
    source.write_text(POWER_OFF)
    flags = ["-static", "-nostdlib", "-O2", "-fno-stack-protector", "-fno-pie", "-no-pie"]
    subprocess.run(["cc", *flags, "-o", str(program), str(source)], check=True)
    archive.write_bytes(_entry("init", 0o100755, program.read_bytes()) + _entry("TRAILER!!!", 0, b""))
    return archive


def _entry(name: str, mode: int, content: bytes) -> bytes:
    """A file as `newc` has it (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    fields = [1, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return b"".join(part + bytes(-len(part) % 4) for part in (head, content))


if __name__ == "__main__":
    main()
