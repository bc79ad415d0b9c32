"""Planners for grid games: movement as data, all-target next-action tables, and right of way among many agents.

motion.py says how primitives change a pose, tables.py what that costs to every target from everywhere, traffic.py who
moves how in a step, and detour.py how one agent gets past others where making way takes several steps. pairs.py knows
all of it beforehand for two agents that share a map.
"""

from potluck_optionlib.planners.detour import Detour
from potluck_optionlib.planners.motion import COMPASS, DRIVING, FLAT, Motion, Pose, Way
from potluck_optionlib.planners.pairs import Pairs, Partner, alone, lot, plan_pair
from potluck_optionlib.planners.tables import FAR, STAY, Field, Grid, Table
from potluck_optionlib.planners.traffic import ACT, Joint, Walker, Wish, plan

__all__ = [
    "ACT",
    "COMPASS",
    "DRIVING",
    "FAR",
    "FLAT",
    "STAY",
    "Detour",
    "Field",
    "Grid",
    "Joint",
    "Motion",
    "Pairs",
    "Partner",
    "Pose",
    "Table",
    "Walker",
    "Way",
    "Wish",
    "alone",
    "lot",
    "plan",
    "plan_pair",
]
