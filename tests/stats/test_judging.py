"""When times may be judged: always on real machines with a disk each, else only where the devices were what
everybody waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdyno.stats.judging import DEVICE_BOUND, Ground, unjudged

TIMED = ("s", "1/s", "B/s")
COUNTED = ("1", "B")
GROUNDS = {"emulated": Ground(emulated=True), "shared": Ground(shared=True)}

shares = st.lists(st.floats(0, 2), min_size=1, max_size=12)


@pytest.mark.parametrize("unit", [*TIMED, *COUNTED])
@given(busy=shares)
def test_a_real_machine_with_its_own_disks_is_judged(unit: str, busy: list[float]) -> None:
    assert unjudged(unit, Ground(), busy) is None


@pytest.mark.parametrize("unit", COUNTED)
@given(busy=shares)
def test_counts_are_judged_anywhere(unit: str, busy: list[float]) -> None:
    assert unjudged(unit, Ground(emulated=True, shared=True), busy) is None


@pytest.mark.parametrize("unit", TIMED)
@pytest.mark.parametrize("why", GROUNDS)
@pytest.mark.parametrize(
    ("busy", "judged"),
    [
        ([0.1, 0.2, 0.3], True),
        ([0.49, 0.49, 0.9], True),  # one busy trial of three is not the phase
        ([DEVICE_BOUND], False),
        ([0.1, 0.6, 0.7], False),
        ([1.4], False),
        ([], False),  # not known
        ([float("nan")], False),
    ],
)
def test_elsewhere_only_what_waited_for_its_devices(
    unit: str, why: str, busy: list[float], judged: bool
) -> None:
    assert unjudged(unit, GROUNDS[why], busy) == (None if judged else why)


@given(busy=shares, more=st.floats(0, 1))
def test_who_is_busier_is_never_judged_sooner(busy: list[float], more: float) -> None:
    ground = Ground(emulated=True)
    if unjudged("s", ground, busy):
        assert unjudged("s", ground, [share + more for share in busy])


def test_emulation_is_named_before_sharing() -> None:
    assert unjudged("s", Ground(emulated=True, shared=True), [1.0]) == "emulated"
