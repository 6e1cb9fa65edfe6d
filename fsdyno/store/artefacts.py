"""Artefacts: files that travelled in pieces among the events, put together and verified.

A file is one zlib stream, cut into parts, each in base64; it is named by the SHA-256 of the
uncompressed whole (agent/spec/src/event.rs, `Artefact`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from typing import Any

from fsdyno.errors import Exit, UserError


def _liar(sha: str, what: str) -> UserError:
    return UserError(
        f"the agent sent an artefact that {what} ({sha[:12]})",
        code=Exit.AGENT,
        advice="agent and fsdyno may be of different builds: rebuild the agent",
    )


def assemble(events: list[dict[str, Any]], *, complete: bool) -> dict[str, tuple[list[str], bytes]]:
    """The whole files among `events`: SHA-256 -> (names, contents).

    `complete`: the trial ended, so a file with missing pieces is an error; otherwise it is left out.
    Raises `UserError` with `Exit.AGENT` if a digest does not agree.
    """
    pieces: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("event") == "artefact":
            pieces.setdefault(str(event["sha256"]), []).append(event)
    files: dict[str, tuple[list[str], bytes]] = {}
    for sha, parts in pieces.items():
        by_part = {int(p["part"]): p for p in parts}
        if sorted(by_part) != list(range(int(parts[0]["parts"]))):
            if complete:
                raise _liar(sha, "has missing pieces")
            continue
        try:
            pieces_in_order = (
                base64.b64decode(by_part[i]["data"], validate=True) for i in range(len(by_part))
            )
            data = zlib.decompress(b"".join(pieces_in_order))
        except (binascii.Error, zlib.error, ValueError) as error:
            raise _liar(sha, "cannot be decoded") from error
        if hashlib.sha256(data).hexdigest() != sha:
            raise _liar(sha, "does not have the digest that it is named by")
        files[sha] = (sorted({str(part["name"]) for part in parts}), data)
    return files


def without_data(event: dict[str, Any]) -> dict[str, Any]:
    """The event as the log keeps it: an artefact's bytes are stored once, under their digest."""
    if event.get("event") != "artefact":
        return event
    return {key: value for key, value in event.items() if key != "data"}
