"""A rig on this host: the agent's verbs as Python calls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fsdyno.errors import Exit, UserError
from fsdyno.guest import cache_folder
from fsdyno.rig.binary import find_agent
from fsdyno.rig.protocol import PROTOCOL
from fsdyno.rig.session import Limits, RunSession
from fsdyno.rig.shape import Shape

SCHEMAS = ("trial", "request", "event", "survey", "describe", "record", "align")
"""What the verb `schema` must answer with."""

_REFUSED = Shape(
    {
        "type": "object",
        "properties": {"message": {"type": "string"}, "advice": {"type": ["string", "null"]}},
        "required": ["message"],
    }
)
"""Why the agent gives no answer (`Reason`)."""

VERB_LIMIT = 120.0
"""How long a one-shot verb may take, s. `clean` waits for devices to let go."""


class Rig:
    """The agent on this host.

    `command` starts it (default: the binary of `find_agent`); `state` and `work` are its folders
    (default: FSDYNO_STATE and FSDYNO_WORK, else the agent's own choice), `cache` that of kernels for
    guests (default: FSDYNO_CACHE, else the user's own, also where sudo makes the agent root's). With
    `privileged`, a user who is not root reaches it through `sudo -n` where sudo asks no password.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        state: Path | str | None = None,
        work: Path | str | None = None,
        cache: Path | str | None = None,
        privileged: bool = True,
        limits: Limits | None = None,
    ) -> None:
        self._command = list(command) if command else [str(find_agent())]
        self._given = (state, work, cache)
        self._sudo = ["sudo", "-n", "--"] if privileged and _sudo_works() else []
        self._folders: list[str] = []
        # As flags, since sudo does not pass variables on.
        for flag, value in (
            ("--state", state or os.environ.get("FSDYNO_STATE")),
            ("--work", work or os.environ.get("FSDYNO_WORK")),
            ("--cache", cache or os.environ.get("FSDYNO_CACHE") or (self._sudo and cache_folder())),
        ):
            if value:
                self._folders += [flag, str(Path(value).absolute())]
        self._limits = limits or Limits()
        self._schemas: dict[str, Any] = {}

    def as_caller(self) -> Rig:
        """The same rig reached without sudo, as whoever calls: for what needs no root."""
        if not self._sudo:
            return self
        state, work, cache = self._given
        return Rig(self._command, state=state, work=work, cache=cache, privileged=False, limits=self._limits)

    def argv(self, verb: str, *extra: str) -> list[str]:
        """The command line of a verb."""
        return [*self._sudo, *self._command, *self._folders, verb, *extra]

    def schema(self) -> dict[str, Any]:
        """JSON Schemas of the waist by name: those of `SCHEMAS`."""
        answer = self._ask("schema")
        if missing := [name for name in SCHEMAS if not isinstance(answer.get(name), dict)]:
            raise self._misshapen("schema", f": `{missing[0]}` is missing")
        return answer

    def describe(self) -> dict[str, Any]:
        """The agent's tables: file systems with options, workloads, metrics."""
        return self._shaped("describe")

    def survey(self) -> dict[str, Any]:
        """What this host can do, with reasons."""
        return self._shaped("survey")

    def align(self, options: Mapping[str, str | int]) -> dict[str, Any]:
        """What follows from the geometry of an array: `level`, `members`, `chunk` (bytes), `layout` and
        `block` (bytes), or `device` for a live one. Needs no root. Raises `UserError`: refused.
        """
        words = [f"--{name}={value}" for name, value in options.items()]
        code = Exit.CANNOT if "device" in options else Exit.USAGE
        return self._answered("align", "align", words, code)

    def stack_record(self, target: str) -> dict[str, Any]:
        """A live stack from a path or device down, read without changing anything; what the agent may
        not see is in `unseen`. Raises `UserError`: there is no such stack.
        """
        return self._answered("record", "survey", ["--stack", str(Path(target).absolute())], Exit.CANNOT)

    def clean_all(self) -> dict[str, Any]:
        """`clean`, also of the caller's own agents, which need no root, where root's have another folder."""
        found = self.clean()
        if self._sudo and "--state" not in self._folders:
            caller = self.as_caller().clean()
            for key in ("undone", "left", "failed", "live"):
                found[key] += caller[key]
        return found

    def clean(self) -> dict[str, Any]:
        """Undoes what dead agents left: `undone`, `left`, `failed` (sentences), `live` (a count)."""
        answer = self._ask("clean", must_succeed=False)
        events = self._all_schemas()["event"]
        shape = self._shaping({"$ref": "#/$defs/Cleaned", "$defs": events.get("$defs", {})})
        if flaw := shape.flaw(answer):
            raise self._misshapen("clean", flaw)
        return answer

    def run(self, destroy: Sequence[str] = ()) -> RunSession:
        """Starts a long-lived agent for trials and waits until it has said hello.

        `destroy` are the block devices whose contents may be lost. Raises `UserError`: refused
        (busy, no root, unsafe) or not able to speak.
        """
        extra = [word for path in destroy for word in ("--destroy", str(path))]
        shape = self._shape("event")
        return RunSession(self.argv("run", *extra), self._limits, shape, privileged=bool(self._sudo))

    def _shaped(self, verb: str) -> dict[str, Any]:
        """The answer of a verb, if it is as the agent's own schema promises."""
        answer = self._ask(verb)
        if flaw := self._shape(verb).flaw(answer):
            raise self._misshapen(verb, flaw)
        return answer

    def _answered(self, schema: str, verb: str, words: Sequence[str], code: Exit) -> dict[str, Any]:
        """The answer to a question that may be refused: then a `UserError` with this code."""
        answer = self._ask(verb, *words, must_succeed=False)
        refused = answer.get("refused")
        if refused is None:
            if flaw := self._shape(schema).flaw(answer):
                raise self._misshapen(verb, flaw)
            return answer
        if flaw := _REFUSED.flaw(refused):
            raise self._misshapen(verb, f".refused{flaw}")
        raise UserError(refused["message"], code=code, advice=refused.get("advice"))

    def _shape(self, name: str) -> Shape:
        return self._shaping(self._all_schemas()[name])

    def _shaping(self, schema: Mapping[str, Any]) -> Shape:
        try:
            return Shape(schema)
        except ValueError as error:
            raise self._misshapen("schema", f": {error}") from None

    def _all_schemas(self) -> dict[str, Any]:
        if not self._schemas:
            self._schemas = self.schema()
        return self._schemas

    def _misshapen(self, verb: str, flaw: str) -> UserError:
        return UserError(
            f"`{verb}` of the agent is not as its schema promises: {verb}{flaw}",
            code=Exit.AGENT,
            where=self._command[0],
            advice="build both halves from one checkout: make agent",
        )

    def _ask(self, verb: str, *words: str, must_succeed: bool = True) -> dict[str, Any]:
        argv = self.argv(verb, *words)
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VERB_LIMIT,
                check=False,
                start_new_session=True,  # the terminal's Ctrl-C must not cut short what it undoes
            )
        except OSError as error:
            raise UserError(
                f"the agent cannot be started: {error.strerror or error}", code=Exit.AGENT, where=argv[0]
            ) from None
        except subprocess.TimeoutExpired:
            raise UserError(
                f"`{verb}` of the agent gave no answer within {VERB_LIMIT:.0f} s", code=Exit.AGENT
            ) from None
        said = done.stderr.decode("utf-8", "replace").strip()
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) and (verb == "schema" or done.returncode == 0):
            raise UserError(
                f"this is not a fsdyno agent: to `{verb}` it gave no answer (exit {done.returncode})"
                + (f": {said.splitlines()[-1]}" if said else ""),
                code=Exit.AGENT,
                where=argv[len(self._sudo)],
                advice="let FSDYNO_AGENT name the agent's binary, or unset it; `make agent` builds it",
            )
        if not isinstance(answer, dict) or (must_succeed and done.returncode != 0):
            raise UserError(
                f"`{verb}` of the agent failed (exit {done.returncode})",
                code=Exit.AGENT,
                where=argv[len(self._sudo)],
                advice=said.splitlines()[-1] if said else None,
            )
        if answer.get("protocol", PROTOCOL) != PROTOCOL:
            raise UserError(
                f"the agent speaks protocol {answer['protocol']}, this fsdyno {PROTOCOL}",
                code=Exit.AGENT,
                advice="build both halves from one checkout: make agent",
            )
        return answer


def _sudo_works() -> bool:
    if os.geteuid() == 0 or not shutil.which("sudo"):
        return False
    asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return asked.returncode == 0
