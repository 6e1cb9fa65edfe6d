"""How much room a stack leaves for a file system: what md and LVM make of the leaves."""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.plan.layers import room

GIB = 1 << 30


def spec(count: int, phases: list[dict[str, Any]] | None = None, **stack: Any) -> dict[str, Any]:
    file = {"file": {"size": GIB, "count": count}}
    return {"stack": {"devices": [file], **stack}, "phases": phases or []}


@pytest.mark.parametrize(
    ("array", "members", "size"),
    [
        ({"level": 0}, 4, 4),
        ({"level": 1}, 4, 1),
        ({"level": 5}, 4, 3),
        ({"level": 6}, 4, 2),
        ({"level": 6}, 12, 10),
        ({"level": 10}, 4, 2),
        ({"level": 10, "layout": "near3"}, 6, 2),
        ({"level": 10, "layout": "far2"}, 5, 2.5),
        ({"level": 5, "spares": 1}, 4, 2),
    ],
)
def test_an_array_holds_what_its_level_leaves(array: dict[str, Any], members: int, size: float) -> None:
    assert room(spec(members, array=array)) == size * GIB


def test_the_smallest_member_decides() -> None:
    stack = {"devices": [{"file": {"size": GIB}}, {"file": {"size": 3 * GIB}}], "array": {"level": 1}}
    assert room({"stack": stack, "phases": []}) == GIB


def test_an_array_that_will_grow_has_room_for_what_comes_then() -> None:
    array = {"level": 5, "spares": 1}
    assert room(spec(5, [{"grow": {"members": 5}}], array=array)) == 4 * GIB


def test_a_volume_has_its_own_size_and_one_without_has_the_rest_at_most() -> None:
    volumes = [{"name": "first", "size": GIB // 2}, {"name": "second"}]
    assert room(spec(2, lvm={"volumes": volumes, "use": "first"})) == GIB // 2
    assert room(spec(2, lvm={"volumes": volumes})) == 2 * GIB
    assert room(spec(2, lvm={})) == 2 * GIB


def test_nothing_is_known_of_a_real_disk() -> None:
    assert room({"stack": {"devices": [{"disk": {"path": "/dev/disk/by-id/x"}}]}, "phases": []}) is None
