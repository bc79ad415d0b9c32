"""Patterns in burn-in records that mean a faulty contract: `examine` finds them, `page` and `table` show them."""

from potluck_optionlib.suspicion.patterns import Suspicion, SuspicionKind, examine

__all__ = ["Suspicion", "SuspicionKind", "examine"]
