"""The double's verb `run`: the protocol as the real agent speaks it, and its faults."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from fsdyno.rig.double.faults import REFUSALS, Fault
from fsdyno.rig.double.numbers import Numbers
from fsdyno.rig.protocol import MAX_LINE, PROTOCOL

PHASE_KINDS = (
    *("mkfs", "mount", "remount", "set", "workload", "sync", "drop_caches", "unmount", "check"),
    *("fail", "add", "resync", "grow"),
)
SLOW_BOOT = 2.5  # s


@dataclass
class Voice:
    """A machine that speaks: each boot counts its own events."""

    origin: str
    boot: str
    seq: int = 0


@dataclass
class Guest(Voice):
    """A guest that runs, and whom it serves."""

    serves: tuple[int, str] = (0, "")  # round and machine


class Double:
    """One run of the double on standard input and output."""

    def __init__(self, fault: Fault, effects: dict[str, float], pace: float) -> None:
        self._fault, self._effects, self._pace = fault, effects, pace
        self._rig = self._voice = Voice("rig", "double")
        self._guest: Guest | None = None
        self._boots = 0
        self._trial: str | None = None
        self._count = -1
        self._cancel = threading.Event()
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def run(self) -> int:
        """Serves requests until the input ends; returns the exit code."""
        if self._fault.name == "no_hello":
            self.say({"event": "heartbeat", "elapsed": 0.0})
        self.say(_hello(PROTOCOL + (self._fault.name == "wrong_protocol")))
        if self._fault.name in REFUSALS:
            refusal, message, advice = REFUSALS[self._fault.name]
            self.say({"event": "error", "refusal": refusal, "message": message, "advice": advice})
            return 2
        self.say({"event": "cleaned", "undone": [], "left": [], "failed": [], "live": 0})
        threading.Thread(target=self._listen, daemon=True).start()
        while request := self._requests.get():
            if self._run_trial(request) == "teardown_failed":
                return 3
        if self._fault.name == "stuck":
            time.sleep(3600)
        return 0

    def say(self, event: dict[str, Any]) -> None:
        """One line with its envelope."""
        envelope: dict[str, Any] = {
            "seq": self._voice.seq,
            "from": self._voice.origin,
            "boot": self._voice.boot,
            "at_ns": time.monotonic_ns(),
        }
        if self._trial:
            envelope["trial"] = self._trial
        self._voice.seq += 1
        self._raw(json.dumps({**envelope, **event}).encode() + b"\n")

    def _raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if "trial" in request:
                self._cancel.clear()
                self._requests.put(request["trial"])
            else:
                self._cancel.set()
        self._cancel.set()
        self._requests.put(None)

    def _run_trial(self, request: dict[str, Any]) -> str:
        self._count += 1
        self._trial = request["trial"]
        begun = time.monotonic()
        spec = request["spec"]
        numbers = Numbers(int(request["seed"]), spec, self._effects)
        machine = spec.get("machine")
        place = "directory" if spec["stack"].get("directory") else "native" if machine is None else "guest"
        self.say(
            {
                "event": "trial_start",
                "wall_clock": time.time(),
                "place": place,
                "phases": len(spec["phases"]),
            }
        )
        if self._refuses():
            return self._end("failed", self._refuse(), begun)
        if machine is not None:
            self._voice = self._ready(request.get("round", 0), machine)
        if self._on("guest_refuses"):
            why = self._refuse()
            self._voice = self._rig
            return self._end("failed", why, begun)
        self.say({"event": "built", "part": "device", "facts": {"name": "double0", "driver": "double"}})
        outcome, reason, flags = "ok", None, []
        for index, phase in enumerate(spec["phases"]):
            if self._on("guest_dies") and index == 1:
                self._guest = None
                outcome, reason = "failed", {"message": "the guest died; its last words: Kernel panic"}
                break
            self._phase(numbers, index, phase)
            if self._on("fails") and index == 1:
                outcome, reason = "failed", {"message": "the tool said no", "advice": "ask it why"}
                break
            if self._cancel.is_set() and not self._on("deaf"):
                outcome, reason = "cancelled", {"message": "cancelled by request"}
                break
        if self._on("no_end"):
            os._exit(0)
        if self._on("guest_ends"):
            self.say({"event": "end", "outcome": "ok", "flags": [], "wall": 0.1, "teardown": 0.0})
        self._voice = self._rig
        if self._on("suspect"):
            flags = [{"doubt": "stolen_time", "reason": "8 % of the CPU time was stolen, limit 5 %"}]
        if self._on("teardown_failed"):
            outcome, reason = "teardown_failed", {"message": "the mount is busy and stays"}
        while self._on("deaf"):
            time.sleep(0.05)
            self.say({"event": "heartbeat", "elapsed": 0.0})
        return self._end(outcome, reason, begun, flags)

    def _refuses(self) -> bool:
        """Whether the rig refuses this trial."""
        at_once = any(self._on(name) for name in ("refuses_trial", "refuses_and_goes"))
        return at_once or (self._fault.name == "refuses_all" and self._count >= self._fault.trial)

    def _refuse(self) -> dict[str, str]:
        """Says that this trial cannot be had here; returns why."""
        reason = {"message": "the folder is not writable", "advice": "name another"}
        self.say({"event": "error", "refusal": "environment", **reason})
        if self._on("refuses_and_goes"):
            os._exit(0)
        return reason

    def _end(
        self,
        outcome: str,
        reason: dict[str, str] | None,
        begun: float,
        flags: list[dict[str, str]] | None = None,
    ) -> str:
        """Ends the trial; returns its outcome."""
        end: dict[str, Any] = {
            "event": "end",
            "outcome": outcome,
            "flags": flags or [],
            "wall": time.monotonic() - begun,
            "teardown": 0.001,
            "shell": [{"phase": "device", "command": "true  # the double builds nothing"}],
        }
        if reason:
            end["reason"] = reason
        self.say(end)
        self._trial = None
        return outcome

    def _ready(self, round_: int, machine: Any) -> Guest:
        """The guest for a trial: the one that runs, if it is of this round and equal, or another boot."""
        serves = (round_, json.dumps(machine, sort_keys=True))
        fresh = self._guest is None or self._guest.serves != serves
        if self._guest is None or fresh:
            until = time.monotonic() + (SLOW_BOOT if self._on("slow_boot") else 0.0)
            while True:
                self.say({"event": "heartbeat", "doing": "booting the guest", "elapsed": 0.0})
                if time.monotonic() >= until or self._cancel.wait(0.5):
                    break
            self._boots += 1
            self._guest = Guest("guest", f"double guest {self._boots}", serves=serves)
            mine, self._trial, self._voice = self._trial, None, self._guest
            self.say(_hello(PROTOCOL))
            self._trial, self._voice = mine, self._rig
        facts = {"kernel": "double", "accelerator": "tcg", "boot": self._guest.boot, "fresh": fresh}
        self.say({"event": "built", "part": "machine", "facts": facts})
        return self._guest

    def _phase(self, numbers: Numbers, index: int, phase: dict[str, Any]) -> None:
        kind = next(key for key in PHASE_KINDS if phase.get(key) is not None)
        head: dict[str, Any] = {"index": index, "name": phase.get("name") or kind, "kind": kind}
        if phase.get("point"):
            head["point"] = phase["point"]
        self.say({"event": "phase_start", **head})
        if index == 0:
            self._misbehave()
        pace = 1.0 if self._on("slow") else self._pace
        until = time.monotonic() + pace
        while (left := until - time.monotonic()) > 0 and not self._cancel.wait(min(left, 1.0)):
            self.say({"event": "heartbeat", "index": index, "elapsed": pace - max(left, 0.0)})
        self.say({"event": "phase_end", **head, **numbers.measure(phase)})

    def _misbehave(self) -> None:
        if self._on("garbage"):
            self._raw(b"mke2fs 1.47: this is not for you\n")
        if self._on("truncated"):
            self._raw(b'{"seq": ')
            os.kill(os.getpid(), signal.SIGKILL)
        if self._on("silent"):
            time.sleep(3600)
        if self._on("dies"):
            print("the double was told to die", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if self._on("wrong_trial"):
            mine, self._trial = self._trial, "00000000-0000-4000-8000-000000000000"
            self.say({"event": "heartbeat", "index": 0, "elapsed": 0.0})
            self._trial = mine
        if self._on("gap"):
            self._voice.seq += 1
        if self._on("huge"):
            self._raw(b'{"x": "' + b"x" * (MAX_LINE + 10) + b'"}\n')
        if self._on("new_kind"):
            self.say({"event": "tea_break", "biscuits": 3})

    def _on(self, name: str) -> bool:
        return self._fault.now(name, self._count)


def _hello(protocol: int) -> dict[str, Any]:
    return {
        "event": "hello",
        "protocol": protocol,
        "version": "double",
        "engine": 1,
        "pid": os.getpid(),
        "kernel": os.uname().release,
        "calibration": {"clock": "tsc", "clock_ns": 20.0, "operation_ns": 50.0, "syscall_ns": 100.0},
    }
