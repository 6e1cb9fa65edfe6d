"""What a finding costs, as it was measured: campaigns of a store that have it right and wrong.

Nothing heavy is imported before there is a store that may tell; the store is only looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fsdyno.audit.evidence.model import Cost, Evidence, Seen, Shown
from fsdyno.errors import UserError

if TYPE_CHECKING:
    from fsdyno.audit.rule import Rule
    from fsdyno.audit.stack import Stack

__all__ = ["UNMEASURED", "Cost", "Evidence", "Seen", "Shown", "cost"]

NOT_MEASURED = "not measured here"
UNMEASURED = Cost((f"{NOT_MEASURED}, and no ready plan measures it",), {"measured": False, "plan": None})
"""Of what no evidence is about."""


def cost(rule: Rule, stack: Stack, store_path: Path | None) -> Cost:
    """What the findings of a rule cost, as a store shows it: the campaign that is nearest to this stack.

    A store that is not there has measured nothing. One that cannot be read is told in `problem`, the same
    words for each rule, so that they can be shown once; never an exception.
    """
    evidence = rule.evidence
    if evidence is None or not evidence.applies(stack):
        return UNMEASURED
    nothing = (f"{NOT_MEASURED}; {evidence.plan} would",)
    told = {"measured": False, "plan": evidence.plan}
    if store_path is None or not _there(store_path):
        return Cost(nothing, told)
    from fsdyno.audit.evidence import words
    from fsdyno.audit.evidence.search import best
    from fsdyno.store.database import UNREADABLE, damaged
    from fsdyno.store.looking import look

    try:
        with look(store_path) as store:
            effect = best(evidence, stack, store)
            if effect is not None:
                kind = stack.filesystem.type if stack.filesystem else None
                return Cost(words.text(effect, kind), words.data(effect))
            return Cost(nothing, told)
    except UserError as error:
        return Cost(nothing, told, str(error))
    except (*UNREADABLE, AttributeError, IndexError, ArithmeticError, RecursionError):
        # Whoever wrote these records was not fsdyno: their form is checked by nobody before.
        return Cost(nothing, told, str(damaged(store_path, "a record in it cannot be read")))


def _there(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # and `look` says what is wrong with it
    return True
