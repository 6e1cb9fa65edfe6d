"""A rig of its own for each test, with the real agent; afterwards nothing of it may be left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fixtures import Fsdyno, real_agent
from tests.faults.traces import left_behind


@pytest.fixture
def fsdyno(tmp_path: Path) -> Iterator[Fsdyno]:
    """The command line with the real agent, as root. The test ends with nothing left behind."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes loop devices and mounts them")
    yield Fsdyno(tmp_path, real_agent())
    assert left_behind(tmp_path) == []
