"""How long it takes until fsdyno answers: the command line's help, and the agent's first line.

python bench/startup.py [--rounds 30]
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


def main() -> None:
    """Measures interleaved and prints medians; exits 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    agent = str(find_agent())
    helps, hellos = [], []
    with tempfile.TemporaryDirectory() as state:
        for _ in range(rounds):
            start = time.monotonic()
            subprocess.run([sys.executable, "-m", "fsdyno.cli", "--help"], check=True, capture_output=True)
            helps.append(time.monotonic() - start)
            start = time.monotonic()
            with subprocess.Popen(
                [agent, "--state", state, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as process:
                assert process.stdin and process.stdout
                process.stdout.readline()
                hellos.append(time.monotonic() - start)
                process.stdin.close()
    found = ((statistics.median(helps), HELP_LIMIT), (statistics.median(hellos), AGENT_LIMIT))
    for name, (seconds, limit) in zip(("fsdyno --help", "agent: start to hello"), found, strict=True):
        print(f"{name:24}{seconds * 1e3:8.1f} ms   limit {limit * 1e3:.0f} ms")
    raise SystemExit(0 if all(seconds < limit for seconds, limit in found) else 1)


if __name__ == "__main__":
    main()
