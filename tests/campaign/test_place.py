"""One place for a whole plan: chosen by what the survey says, told with its reason, and kept on a resume."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fsdyno.campaign.place import Choice, choose
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Plan
from fsdyno.store import Store
from tests.campaign import bench

Survey = dict[str, Any]
NO = {"able": False, "reason": {"message": "this kernel has none of it", "advice": "another kernel"}}
YES = {"able": True}
KERNEL = {"release": "6.1.0-9", "source": "package 6.1"}
MACHINE = {
    "type": "object",
    "properties": {
        "memory": {"type": "integer", "format": "bytes", "default": 1 << 30},
        "cpus": {"type": "integer", "default": 2},
    },
    "additionalProperties": False,
}
SCHEMA = {"type": "object", "properties": {"machine": MACHINE}}


def survey(native: str = "", guest: str | None = None, kernels: int = 1) -> Survey:
    """A survey in which the file systems of these letters run natively, and in a guest (None: there are
    no guests)."""
    found = bench.survey()
    for entry in found["filesystems"]:
        letter = entry["name"][0]
        entry["places"] = {"native": YES if letter in native else NO}
        if guest is not None:
            entry["places"]["guest"] = YES if letter in guest else NO
    if guest is not None:
        found["places"]["guest"] = YES if kernels else {"able": False, "reason": {"message": "no kernel"}}
    found["kernels"] = [KERNEL] * kernels
    return found


def plan(place: str = "auto", **stack: Any) -> Plan:
    """Cells a, b and c."""
    made = bench.plan(place=place, schema=SCHEMA)
    for cell in made.cells:
        cell.spec["stack"].update(copy.deepcopy(stack))
    return made


def never() -> None:
    raise AssertionError("no kernel was needed")


def chosen(plan: Plan, found: Survey, wanted: str | None = None) -> Choice:
    return choose(plan, wanted, lambda: found, never)


def machines(choice: Choice) -> list[Any]:
    return [cell.spec.get("machine") for cell in choice.plan.cells]


# ---- auto -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("native", "guest", "place", "left_out"),
    [
        ("abg", "abg", "native", []),
        ("ab", "abg", "guest", []),
        ("a", "bg", "guest", [0]),
        ("ab", "ag", "native", [2]),  # no more cells: the machine itself is the better place
        ("ab", None, "native", [2]),
        ("", "g", "guest", [0, 1]),
    ],
)
def test_auto_takes_the_guest_only_if_it_runs_more_cells(
    native: str, guest: str | None, place: str, left_out: list[int]
) -> None:
    choice = chosen(plan(), survey(native, guest))
    assert (choice.place, sorted(choice.left_out)) == (place, left_out)
    assert choice.why.startswith(place)


def test_the_choice_of_a_guest_tells_what_is_missing_here_and_what_its_times_are_worth() -> None:
    why = chosen(plan(), survey("ab", "abg")).why
    assert "this kernel has none of it" in why
    assert "emulat" in why


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (
            ["this kernel (6.18) has no a-3g, as a module", "this kernel (6.18) has no b, as a module"],
            "this kernel (6.18) has no a-3g, b, as a module",
        ),
        (["no a", "no b", "no a", "no c"], "no a, b, c"),
        (["no a", "none", "no b at all"], "no a; none; no b at all"),
        (["no a here", "no b there"], "no a here; no b there"),
        (["a", "b c", "d e f", "g h i j"], "a; b c; d e f; and 1 more reason"),
        (["a", "b c", "d e f", "g h i j", "k l m n o"], "a; b c; d e f; and 2 more reasons"),
    ],
)
def test_reasons_that_differ_in_one_word_are_one(messages: list[str], told: str) -> None:
    made, found = plan(), survey("", "abg")
    cell, entry = made.cells[0], found["filesystems"][0]
    cells = []
    for index, message in enumerate(messages):
        kind = f"fs{index}"
        spec = copy.deepcopy(cell.spec) | {"filesystem": {"type": kind}}
        cells.append(dataclasses.replace(cell, index=index, name=kind, spec=spec))
        no = {"able": False, "reason": {"message": message}}
        found["filesystems"].append(
            copy.deepcopy(entry) | {"name": kind, "places": {"native": no, "guest": YES}}
        )
    why = chosen(dataclasses.replace(made, cells=tuple(cells)), found).why
    assert why.startswith(f"guest (kernel 6.1.0-9): {told}; if its CPUs are emulated")


def test_nothing_runs_anywhere() -> None:
    with pytest.raises(UserError) as caught:
        chosen(plan(), survey("", ""))
    assert caught.value.code == Exit.CANNOT
    assert caught.value.message == "this kernel has none of it"


def test_directories_stay_on_the_machine_itself() -> None:
    choice = chosen(plan(directory="/srv"), survey("", "abg"))
    assert (choice.place, machines(choice)) == ("directory", [None] * 3)


def test_a_layer_that_is_missing_here_calls_for_a_guest() -> None:
    found = survey("abg", "abg")
    found["layers"] = [{"name": "array", "places": {"native": NO, "guest": YES}, "tools": {"mdadm": "array"}}]
    found["tools"]["mdadm"] = {"path": "/sbin/mdadm", "package": "mdadm"}
    assert chosen(plan(), found).place == "native"
    assert chosen(plan(array={"level": 5}), found).place == "guest"
    found["tools"]["mdadm"] = {"package": "mdadm"}
    with pytest.raises(UserError) as caught:
        chosen(plan(array={"level": 5}), found)
    assert (caught.value.message, caught.value.advice) == (
        "mdadm is missing, which stack.array needs",
        "install the package mdadm",
    )


# ---- asked for --------------------------------------------------------------------------------------


def test_a_place_that_is_asked_for_is_taken_though_another_runs_more() -> None:
    assert chosen(plan("native"), survey("a", "abg")).place == "native"
    assert chosen(plan("guest"), survey("abg", "a")).place == "guest"
    assert chosen(plan(), survey("abg", "abg"), wanted="guest").place == "guest"
    assert chosen(plan("guest"), survey("abg", "abg"), wanted="native").place == "native"


def test_one_cell_with_a_machine_takes_all_into_guests() -> None:
    made = plan()
    made.cells[1].spec["machine"] = {"memory": 2 << 30, "cpus": 1}
    choice = chosen(made, survey("abg", "abg"))
    default = {"memory": 1 << 30, "cpus": 2}
    assert machines(choice) == [default, {"memory": 2 << 30, "cpus": 1}, default]
    with pytest.raises(UserError) as caught:
        chosen(made, survey("abg", "abg"), wanted="native")
    assert caught.value.code == Exit.USAGE


def test_the_guest_is_part_of_a_configuration() -> None:
    made = plan()
    choice = chosen(made, survey("ab", "abg"))
    assert all(a.what != b.what for a, b in zip(made.cells, choice.plan.cells, strict=True))
    assert made.cells[0].spec.get("machine") is None, "the plan itself stays as it was"


def test_a_real_disk_never_goes_into_a_guest() -> None:
    disk = plan(devices=[{"disk": {"path": "/dev/disk/by-id/x"}}])
    assert chosen(disk, survey("ab", "abg")).place == "native"
    with pytest.raises(UserError) as caught:
        chosen(disk, survey("abg", "abg"), wanted="guest")
    assert "no real disk" in caught.value.message


def test_a_guest_must_fit_into_the_memory() -> None:
    made = plan()
    made.cells[2].spec["machine"] = {"memory": 4 << 30, "cpus": 1}
    with pytest.raises(UserError) as caught:
        chosen(made, survey("abg", "abg"))
    assert caught.value.code == Exit.CANNOT
    assert "a guest of 4 GiB does not fit into this machine's 4 GiB" in caught.value.message
    assert caught.value.where == "gamma: machine.memory"


def test_a_kernel_that_nobody_has_is_told_with_those_that_are_there() -> None:
    made = plan()
    for cell in made.cells:
        cell.spec["machine"] = {"kernel": "5.4"}
    with pytest.raises(UserError) as caught:
        chosen(made, survey("abg", "abg"))
    assert "'5.4'" in caught.value.message and "6.1.0-9" in caught.value.message


def with_older() -> Survey:
    """A machine whose newest kernel for guests has a and b, and an older one b and g."""
    found = survey("", "ab")
    kinds = [entry["name"] for entry in found["filesystems"]]
    found["kernels"] = [
        {**KERNEL, "filesystems": {kind: YES if kind[0] in "ab" else NO for kind in kinds}},
        {
            "release": "5.10.0-1",
            "source": "package 5.10",
            "filesystems": {kind: YES if kind[0] in "bg" else NO for kind in kinds},
        },
    ]
    return found


def test_a_cell_is_judged_by_the_kernel_that_it_names_and_the_line_tells_those_that_are_booted() -> None:
    made = plan()
    for cell in made.cells[1:]:
        cell.spec["machine"] = {"kernel": "5.10.0-1"}
    choice = chosen(made, with_older())
    assert (choice.place, choice.left_out) == ("guest", {})
    assert choice.why.startswith(f"guest (kernels {KERNEL['release']}, 5.10.0-1): ")
    made.cells[0].spec["machine"] = {"kernel": "5.10.0-1"}
    choice = chosen(made, with_older())
    assert list(choice.left_out) == [0], "what only the newest has is not run by another one"
    assert choice.why.startswith("guest (kernel 5.10.0-1): ")


def test_a_kernel_that_would_do_is_named() -> None:
    choice = chosen(plan("guest"), with_older())
    assert list(choice.left_out) == [2]
    assert choice.left_out[2]["advice"] == 'name machine.kernel = "5.10.0-1", which has gamma'


# ---- the first kernel -------------------------------------------------------------------------------


@dataclasses.dataclass
class Cache:
    """A machine that has no kernel for guests until it gets one."""

    before: Survey
    after: Survey
    fetched: int = 0

    def look(self) -> Survey:
        return self.after if self.fetched else self.before

    def get_kernel(self) -> None:
        self.fetched += 1


def cache(native: str) -> Cache:
    return Cache(survey(native, "", kernels=0), survey(native, "abg"))


def test_a_kernel_is_fetched_once_where_a_guest_would_run_more() -> None:
    machine = cache("ab")
    choice = choose(plan(), None, machine.look, machine.get_kernel)
    assert (choice.place, machine.fetched, choice.left_out) == ("guest", 1, {})
    assert choice.survey["kernels"] == [KERNEL]


def test_no_kernel_is_fetched_where_it_could_not_help() -> None:
    whole, disks, tools = cache("abg"), cache("ab"), cache("")
    assert choose(plan(), None, whole.look, never).place == "native"
    disk = plan(devices=[{"disk": {"path": "/dev/disk/by-id/x"}}])
    assert choose(disk, None, disks.look, never).place == "native"
    for entry in tools.before["filesystems"]:
        entry["tools"] = {"mkfs.any": "mkfs"}
    tools.before["tools"]["mkfs.any"] = {"package": "any-progs"}
    with pytest.raises(UserError):
        choose(plan(), None, tools.look, never)


def test_no_kernel_is_fetched_for_an_emulator_that_is_missing() -> None:
    machine = cache("ab")
    name = f"qemu-system-{machine.before['host']['machine']}"
    machine.before["tools"][name] = {"package": "qemu-system-x86"}
    no_qemu = {"able": False, "reason": {"message": "QEMU is missing", "advice": "install qemu-system-x86"}}
    machine.before["places"]["guest"] = no_qemu
    choice = choose(plan(), None, machine.look, never)
    assert choice.place == "native"
    assert "QEMU is missing (install qemu-system-x86)" in choice.why


def test_without_a_network_what_runs_natively_is_measured() -> None:
    choice = choose(plan(), None, cache("ab").look, bench.no_kernel)
    assert (choice.place, list(choice.left_out)) == ("native", [2])
    assert "there is no network" in choice.why
    for machine, made in ((cache(""), plan()), (cache("abg"), plan("guest"))):
        with pytest.raises(UserError) as caught:
            choose(made, None, machine.look, bench.no_kernel)
        assert caught.value.advice == "unpack a kernel yourself"


# ---- campaigns --------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        yield opened


Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, store: Store) -> Run:
    """Runs the plan where gamma needs a guest."""

    def run(*behave: str, native: str = "ab", rounds: int = 2, **options: Any) -> Any:
        rig = bench.rig(tmp_path, *behave, survey=survey(native, "abg"))
        notebook = bench.Notebook()
        made = dataclasses.replace(plan(), rounds=rounds)
        return bench.run(made, rig, store, notebook, **options), notebook

    return run


def boots(store: Store, campaign: str) -> list[list[str]]:
    """By round, the guest that served each trial, in the order of the trials."""
    found: dict[int, list[str]] = {}
    for trial in store.trials(campaign):
        if trial.outcome in ("ok", "failed"):
            events = store.events(trial.id)
            [machine] = [e["facts"]["boot"] for e in events if e.get("part") == "machine"]
            found.setdefault(trial.round, []).append(machine)
    return [found[number] for number in sorted(found)]


def test_a_guest_serves_a_round_and_the_next_round_gets_another(run: Run, store: Store) -> None:
    outcome, notebook = run()
    assert outcome.exit == Exit.OK
    first, second = boots(store, outcome.campaign)
    assert (len(first), len(set(first)), len(second), len(set(second))) == (3, 1, 3, 1)
    assert first[0] != second[0]
    assert notebook.headers[0].place.startswith("guest (kernel 6.1.0-9): ")


def test_the_place_is_recorded_with_its_kernel_and_its_reason(run: Run, store: Store) -> None:
    outcome, notebook = run()
    found = store.campaign(outcome.campaign)
    assert found.where["place"] == "guest"
    assert found.where["guest"] == {KERNEL["release"]: KERNEL["source"]}
    assert found.survey["chosen"]["place"] == "guest"
    assert found.survey["chosen"]["why"] == notebook.headers[0].place


def test_a_guest_that_dies_costs_one_trial_and_is_replaced(run: Run, store: Store) -> None:
    outcome, notebook = run("--behave", "guest_dies@1", rounds=1)
    assert [end for _, end in notebook.ends] == ["ok", "failed", "ok"]
    [served] = boots(store, outcome.campaign)
    assert served[0] == served[1] != served[2]
    assert outcome.exit == Exit.INCOMPLETE


def test_a_resume_elsewhere_is_refused_with_the_way_back(run: Run) -> None:
    interrupted, _ = run("--behave", "dies", rounds=1)
    assert interrupted.status == "stopped"
    with pytest.raises(UserError) as caught:
        run(native="abg", rounds=1, resume="")
    assert "--place guest" in str(caught.value.advice)
    resumed, _ = run(native="abg", rounds=1, resume="", place="guest")
    assert (resumed.campaign, resumed.status) == (interrupted.campaign, "complete")
