"""An agent that speaks the protocol, except that one value in what it says is not what it should be.

`liar SEED VERB REAL-AGENT ARGUMENTS…` starts the double, passes everything on, and changes one value (or
drops one key) of one line that the verb VERB prints. The envelope stays right: that one is wrong is found
at once by the protocol's own checks, and is tested there.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

ENVELOPE = {"seq", "from", "boot", "at_ns", "trial", "protocol", "event"}
LIES: list[Any] = [
    None, True, -1, 0, 10**30, -1e308, float("nan"), float("inf"), "", "x", "\0", "é" * 5000, "../../x",
    [], [None], [[]], ["x", 1], {}, {"x": {}}, {"": None},
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        found += places(inner)
    return found


def lie(value: Any, moments: random.Random) -> str:
    """Changes one place of a JSON object. What was done, for the test's message."""
    kept = [(c, k) for c, k in places(value) if not (c is value and k in ENVELOPE)]
    if not kept:
        return "nothing to lie about"
    container, key = moments.choice(kept)
    if isinstance(container, dict) and moments.random() < 0.3:
        was = container.pop(key)
        return f"dropped {key} (was {was!r:.60})"
    was, container[key] = container[key], moments.choice(LIES)
    return f"{key}: {was!r:.60} became {container[key]!r:.60}"


def main() -> int:
    seed, verb, agent, *rest = sys.argv[1:]
    moments = random.Random(int(seed))
    words = [sys.executable, "-m", "fsdyno.rig.double", "--agent", agent, *rest]
    if verb not in rest:
        return subprocess.run(words, check=False).returncode
    if verb != "run":
        answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        print("lie:", lie(answer, moments), file=sys.stderr)
        print(json.dumps(answer))
        return 0
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    victim = moments.randrange(40)
    for n, line in enumerate(process.stdout):
        event = json.loads(line)
        if n == victim:
            print(f"lie: {event['event']}:", lie(event, moments), file=sys.stderr)
        print(json.dumps(event), flush=True)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
