"""A rig with guests for each file of tests: one agent, which boots as rarely as it can."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guest.bench import Bench, needs_guests


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One agent for all tests of a file; afterwards nothing of it may be left."""
    bench = Bench(tmp_path_factory.mktemp("rig"))
    try:
        needs_guests(bench.rig)
        yield bench
    finally:
        bench.close()
