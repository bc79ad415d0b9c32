"""Which decision decided: first decisive errors of failed episodes, and an agent's credit shared among its decisions.

All rests on branches: a recorded episode continued from one of its decision boundaries, with chosen answers there and
the noise of a number, through real env and policy servers.
"""

from potluck_audit.blame.branches import Branch, Branches
from potluck_audit.blame.case import Case, case_of
from potluck_audit.blame.errors import CannotFork, NeverActed, NotAFailure
from potluck_audit.blame.locate import locate
from potluck_audit.blame.results import Choice, Error, Located, Repair, Undecided
from potluck_audit.blame.settings import LocateSettings
from potluck_audit.blame.shares import two_pool

__all__ = [
    "Branch",
    "Branches",
    "CannotFork",
    "Case",
    "Choice",
    "Error",
    "LocateSettings",
    "Located",
    "NeverActed",
    "NotAFailure",
    "Repair",
    "Undecided",
    "case_of",
    "locate",
    "two_pool",
]
