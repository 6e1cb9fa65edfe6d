"""Pure functions on arrays: effects, intervals, quantiles. No input or output, no knowledge of stores.

Formulas and their sources: docs/method.md. This package imports nothing heavy by itself, so that the
store can use `stats.histogram` at no cost; SciPy is imported where it is needed.
"""

ENOUGH_ROUNDS = 6  # fewer is a pilot (design.md §6): no 95 % interval of a median exists
