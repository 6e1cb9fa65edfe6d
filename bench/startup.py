"""How long until fsdyno answers: help, advice for an array, the audit of a live stack, the agent's hello.

python bench/startup.py [--rounds 30] [--audit PATH]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

from fsdyno.rig.binary import find_agent

HELP_LIMIT = 0.3
AGENT_LIMIT = 0.010
"""Issue 2, "Speed and limits", s."""

ADMIN_LIMIT = 1.0
"""Issue 4: an answer in a second, s."""

FSDYNO = [sys.executable, "-m", "fsdyno.cli"]


def main() -> None:
    """Measures interleaved and prints medians; exits 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--audit", default="/", metavar="PATH", help="a mounted path or a device")
    options = parser.parse_args()
    array = ["align", "--level", "6", "--members", "12", "--chunk", "128K"]
    commands = (
        ("fsdyno --help", [*FSDYNO, "--help"], HELP_LIMIT),
        ("fsdyno align", [*FSDYNO, *array], ADMIN_LIMIT),
        (f"fsdyno audit {options.audit}", [*FSDYNO, "audit", options.audit], ADMIN_LIMIT),
    )
    found: dict[str, list[float]] = {name: [] for name, _, _ in commands}
    limits = {name: limit for name, _, limit in commands}
    hello = "agent: start to hello"
    found[hello], limits[hello] = [], AGENT_LIMIT
    agent = str(find_agent())
    with tempfile.TemporaryDirectory() as state:
        for _ in range(options.rounds):
            for name, command, _ in commands:
                start = time.monotonic()
                answered = subprocess.run(command, check=False, capture_output=True)
                found[name].append(time.monotonic() - start)
                assert answered.stdout, answered.stderr.decode()
            start = time.monotonic()
            with subprocess.Popen(
                [agent, "--state", state, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as process:
                assert process.stdin and process.stdout
                process.stdout.readline()
                found[hello].append(time.monotonic() - start)
                process.stdin.close()
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    for name, seconds in medians.items():
        print(f"{name:24}{seconds * 1e3:8.1f} ms   limit {limits[name] * 1e3:.0f} ms")
    raise SystemExit(0 if all(seconds < limits[name] for name, seconds in medians.items()) else 1)


if __name__ == "__main__":
    main()
