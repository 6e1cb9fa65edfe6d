"""The plan behind `fsdyno bench DIR`: one existing directory, no root, no mkfs.

It is an ordinary plan, so that everything else (campaign, store, report, resume) needs to know nothing
of it. The agent works in a folder that it makes itself, and says in its results what could not be cold.
"""

from __future__ import annotations

import json
from pathlib import Path

from fsdyno.errors import Exit, UserError

ROUNDS = 6  # the fewest for an interval of the median

_PLAN = """\
question = {question}
rounds = {rounds}

[trial]
stack.directory = {directory}
timeout = "10min"

[trial.datasets]
small = {{ files = 2000, size = "4K", files_per_directory = 100 }}
large = {{ files = 2, size = "64M" }}

[[trial.phases]]
name = "create"
workload.tree = {{ op = "create", dataset = "small" }}

[[trial.phases]]
name = "forget 1"
remount = {{ cold = true }}

[[trial.phases]]
name = "read small"
workload.tree = {{ op = "read", dataset = "small" }}

[[trial.phases]]
name = "write"
workload.stream = {{ op = "write", dataset = "large", record = "1M" }}

[[trial.phases]]
name = "forget 2"
remount = {{ cold = true }}

[[trial.phases]]
name = "read"
workload.stream = {{ op = "read", dataset = "large", record = "1M" }}

[[trial.phases]]
name = "random read"
workload.random = {{ op = "read", dataset = "large", record = "4K", operations = 4000, direct = true }}

[[trial.phases]]
name = "delete"
workload.tree = {{ op = "delete", dataset = "small" }}
"""


def plan_text(directory: Path) -> str:
    """The plan for a directory. Raises `UserError` if it is none."""
    if not directory.is_dir():
        raise UserError(
            "is no directory" if directory.exists() else "does not exist",
            code=Exit.CANNOT,
            where=str(directory),
            advice="name an existing directory; fsdyno works in a folder that it makes there",
        )
    absolute = str(directory.resolve())
    if any(Path(absolute).is_relative_to(kernel) for kernel in ("/proc", "/sys")):
        raise UserError(
            "is no place for files: what the kernel shows there is not stored anywhere",
            code=Exit.CANNOT,
            where=absolute,
            advice="name a directory on a disk",
        )
    return _PLAN.format(
        question=json.dumps(f"How fast is {absolute} with small files, streams and random reads?"),
        rounds=ROUNDS,
        directory=json.dumps(absolute),
    )
