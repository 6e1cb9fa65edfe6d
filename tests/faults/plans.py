"""Plans for tests of faults: small, on sparse files, one table to change."""

from __future__ import annotations

PLAN = """\
question = "Which is fastest?"
rounds = {rounds}
[trial]
stack.devices = [{device}]
phases = [
  {{ mkfs = {{}} }},
  {{ mount = {{}} }},
  {{ name = "create", workload.tree = {{ op = "create", dataset = "small" }} }},
  {{ unmount = {{}} }},
  {{ check = {{}} }},
]
[trial.datasets]
small = {{ files = {files}, size = "{size}" }}
[matrix]
filesystem = {filesystems}
"""

SPARSE = '{ file = { size = "320MiB", backing = "sparse" } }'


def plan(
    *,
    rounds: int = 1,
    device: str = SPARSE,
    files: int = 200,
    size: str = "4K",
    filesystems: str = '["ext4"]',
) -> str:
    """The text of a plan."""
    return PLAN.format(rounds=rounds, device=device, files=files, size=size, filesystems=filesystems)


def on_disk(link: object) -> str:
    """A real device as a plan names it."""
    return f'{{ disk = {{ path = "{link}" }} }}'
