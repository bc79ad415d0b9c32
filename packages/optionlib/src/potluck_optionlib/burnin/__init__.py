"""Burn-in: uniform random play over the unguarded candidates, one record per finished execution.

The records and nothing else are what guards are mined from. The same game, plan and contracts give the same records
and the same digest, in one process (`run`) or over many with interruptions (`play_folder`).
"""

from potluck_optionlib.burnin.folder import Progress, load, play_folder, save
from potluck_optionlib.burnin.plan import BurninPlan
from potluck_optionlib.burnin.play import MAX_INSTANCES, QuickBurnin, one_by_one, run
from potluck_optionlib.burnin.records import Burnin, Record, Row, Tally

__all__ = [
    "MAX_INSTANCES",
    "Burnin",
    "BurninPlan",
    "Progress",
    "QuickBurnin",
    "Record",
    "Row",
    "Tally",
    "load",
    "one_by_one",
    "play_folder",
    "run",
    "save",
]
