"""How many members may be out, counted phase by phase: nothing that can be built is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.plan.members import check_members, may_lose

Phases = list[dict[str, Any]]


def problems(phases: Phases, devices: int = 6, **array: Any) -> list[str]:
    return [problem.message for problem in check_members(phases, array, devices)]


@pytest.mark.parametrize(
    ("array", "members", "most"),
    [
        ({"level": 0}, 4, 0),
        ({"level": 1}, 4, 3),
        ({"level": 5}, 4, 1),
        ({"level": 6}, 12, 2),
        ({"level": 10}, 4, 2),
        ({"level": 10, "layout": "near3"}, 6, 4),
        ({"level": 10, "layout": "far2"}, 5, 2),
    ],
)
def test_a_level_bears_what_its_redundancy_does(array: dict[str, Any], members: int, most: int) -> None:
    assert may_lose(array, members) == most
    out: Phases = [{"fail": {"members": [slot]}} for slot in range(most)]
    assert problems(out, members, **array) == []
    assert len(problems([*out, {"fail": {"members": [most]}}], members, **array)) == 1


def test_members_that_came_back_may_fail_again() -> None:
    once: Phases = [{"fail": {"members": [0]}}, {"add": {"members": [0]}}]
    assert problems(once * 3, level=5) == []


def test_a_spare_takes_the_place_of_a_member() -> None:
    taken: Phases = [{"fail": {"members": [0]}}, {"add": {"members": [5]}}, {"fail": {"members": [1]}}]
    assert problems(taken, level=5, spares=1) == []
    assert "2 members out" in problems([taken[0], taken[2]], level=5, spares=1)[0]


def test_a_grown_array_has_members_that_may_fail() -> None:
    grown: Phases = [{"grow": {"members": 6}}, {"fail": {"members": [5]}}]
    assert problems(grown, level=5, spares=1) == []
    assert problems(grown[1:], level=5, spares=1) == [
        "the device of slot 5 is not in the array at this point"
    ]
    assert "6 members and 0 spares" in problems([grown[0], grown[0]], level=5, spares=1)[0]


@pytest.mark.parametrize(("layout", "refused"), [("near2", False), (None, False), ("far2", True)])
def test_only_near_copies_grow(layout: str | None, refused: bool) -> None:
    array = {"level": 10, "spares": 1} | ({"layout": layout} if layout else {})
    assert bool(problems([{"grow": {"members": 6}}], **array)) is refused
