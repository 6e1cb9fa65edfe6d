"""Plan file -> cells -> trials: matrix, sweeps, exclusions, order, cost. Knows no option by itself:
the agent's schema is the list of what a trial may say.
"""

from __future__ import annotations

from fsdyno.plan.estimate import Estimate, estimate
from fsdyno.plan.load import load, parse
from fsdyno.plan.model import Axis, Cell, Plan, Point
from fsdyno.plan.order import Round, rounds
from fsdyno.plan.problems import PlanError, Problem

__all__ = [
    "Axis",
    "Cell",
    "Estimate",
    "Plan",
    "PlanError",
    "Point",
    "Problem",
    "Round",
    "estimate",
    "load",
    "parse",
    "rounds",
]
