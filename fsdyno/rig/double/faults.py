"""What the double can do wrong, by name. `FAULT@N` does it in the N-th trial of an agent, from 0."""

from __future__ import annotations

from dataclasses import dataclass

FAULTS = {
    "normal": "nothing wrong",
    "garbage": "a line that is no JSON, in the first phase",
    "truncated": "half an event, then death, in the first phase",
    "silent": "no heartbeat and no event from the first phase on",
    "dies": "SIGKILL in the first phase",
    "wrong_protocol": "hello of another protocol",
    "no_hello": "no hello at all",
    "wrong_trial": "an event of a trial that nobody asked for",
    "gap": "an event is missing",
    "no_end": "exits before the trial's end",
    "huge": "a line longer than any reader should hold",
    "new_kind": "an event of a kind that is not known yet: no fault, a newer agent",
    "busy": "refuses: another campaign measures here",
    "no_root": "refuses: no root",
    "unsafe": "refuses: a device is not ours",
    "refuses_trial": "refuses a trial: its folder is not writable",
    "refuses_all": "refuses every trial from this one on",
    "refuses_and_goes": "refuses a trial, and ends without the trial's end",
    "guest_refuses": "a guest refuses a trial, which its rig then ends",
    "fails": "the second phase fails",
    "suspect": "all is well, but flagged",
    "teardown_failed": "the stack cannot be taken down",
    "slow": "each phase takes a second",
    "deaf": "ignores a cancel and never ends",
    "guest_dies": "a guest dies after its first phase",
    "guest_ends": "a guest ends a trial, which is its rig's to end",
    "slow_boot": "a guest boots longer than an agent may be silent",
    "stuck": "does not go when its input ends",
}

REFUSALS = {
    "busy": ("busy", "another campaign measures on this rig", "wait for it to end"),
    "no_root": ("no_root", "not privileged enough", "run as root"),
    "unsafe": ("unsafe", "the device carries a file system that is not ours", None),
}


@dataclass(frozen=True)
class Fault:
    """A fault and the trial in which it shows."""

    name: str = "normal"
    trial: int = 0

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From `name` or `name@trial`. Raises ValueError for an unknown name."""
        name, _, trial = text.partition("@")
        if name not in FAULTS:
            raise ValueError(f"unknown fault {name!r}; known: {', '.join(FAULTS)}")
        return cls(name, int(trial or 0))

    def now(self, name: str, trial: int) -> bool:
        """Whether this is the fault and this the trial."""
        return self.name == name and self.trial == trial
