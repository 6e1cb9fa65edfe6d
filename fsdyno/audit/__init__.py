"""What is right and wrong with a stack that runs today: recorded facts, judged by rules, one file each.

The agent reads the stack and computes what geometry follows from it; here the facts are compared and
explained. Nothing in this room touches a disk, so a record is audited alike wherever it came from.
"""

from __future__ import annotations

from fsdyno.audit.run import Audit, audit
from fsdyno.audit.stack import Stack, read

__all__ = ["Audit", "Stack", "audit", "read"]
