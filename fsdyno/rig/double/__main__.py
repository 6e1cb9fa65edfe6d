"""The double's command line: that of the agent, and what to do wrong.

`schema` and `describe` are those of the real agent, since a double must not be a second list of
anything; `survey` claims that everything works, or what a file says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fsdyno.rig.binary import find_agent
from fsdyno.rig.double.agent import Double
from fsdyno.rig.double.faults import FAULTS, Fault
from fsdyno.rig.protocol import PROTOCOL


def main() -> int:
    """Runs one verb."""
    parser = argparse.ArgumentParser(prog="fsdyno-double", description=__doc__)
    parser.add_argument("--behave", default="normal", help=", ".join(FAULTS))
    parser.add_argument("--effects", default="{}", help="JSON: text in a spec -> factor on its speed")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that each phase really takes")
    parser.add_argument("--survey", type=Path, help="answer `survey` with this file")
    parser.add_argument("--agent", help="the real agent, for schema and describe")
    parser.add_argument("--state")
    parser.add_argument("--work")
    parser.add_argument("--cache")
    parser.add_argument("verb", choices=["schema", "describe", "survey", "run", "clean"])
    parser.add_argument("--destroy", action="append")
    asked = parser.parse_args()
    if asked.verb == "run":
        code = Double(Fault.parse(asked.behave), json.loads(asked.effects), asked.pace).run()
        os._exit(code)  # a thread still waits for standard input, which a normal exit would trip over
    if asked.verb == "clean":
        answer: dict[str, Any] = {"undone": [], "left": [], "failed": [], "live": 0}
    elif asked.verb == "survey" and asked.survey:
        answer = json.loads(asked.survey.read_text())
    elif asked.verb == "survey":
        answer = able(_real(asked.agent, "describe"))
    else:
        answer = _real(asked.agent, asked.verb)
    json.dump(answer, sys.stdout)
    return 0


def able(describe: dict[str, Any]) -> dict[str, Any]:
    """A survey in which every file system of the table works."""
    yes = {"able": True}
    return {
        "protocol": PROTOCOL,
        "host": {
            "name": "double",
            "kernel": os.uname().release,
            "machine": os.uname().machine,
            "distribution": "none",
            "boot": "double",
            "cpu": "none",
            "cpus": 2,
            "memory": 4 << 30,
            "root": True,
        },
        "places": {"native": yes, "directory": yes},
        "filesystems": [
            {"name": entry["name"], "driver": entry["name"], "places": {"native": yes}, "tools": {}}
            for entry in describe["filesystems"]
        ],
        "features": {},
        "tools": {},
        "folders": {"state": "/", "work": "/", "free": 1 << 50, "filesystem": "none"},
    }


def _real(agent: str | None, verb: str) -> dict[str, Any]:
    if not agent:
        # FSDYNO_AGENT names the double itself here.
        os.environ.pop("FSDYNO_AGENT", None)
        agent = str(find_agent())
    answer: dict[str, Any] = json.loads(subprocess.run([agent, verb], capture_output=True, check=True).stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main())
