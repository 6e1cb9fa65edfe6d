"""Speaking to a rig agent, and to nothing else: the only door from the deciding half to a disk.

A rig is a host with its devices. `Rig` runs the agent's one-shot verbs and opens a `RunSession`, in
which trials are run one after another. What comes back is checked for the essentials only (order,
identity, completeness), so that an agent may widen the protocol without breaking this side.
"""

from __future__ import annotations

from fsdyno.rig.protocol import Event, Violation
from fsdyno.rig.rig import Rig
from fsdyno.rig.session import Limits, RunSession, TrialReply

__all__ = ["Event", "Limits", "Rig", "RunSession", "TrialReply", "Violation"]
