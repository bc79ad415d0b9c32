"""Judges of single decisions: how much each one helped or hurt, as signed labels.

Built in are `counterfactual`, `greedy` and `prompted`; another package adds one with an entry point of the group
`potluck.judges`, a function of a `Bench` that returns a `DecisionJudge`.
"""

from potluck_audit.blame.judges.base import Bench, DecisionJudge, Judged, Label, Subject
from potluck_audit.blame.judges.registry import GROUP, judge, known

__all__ = ["GROUP", "Bench", "DecisionJudge", "Judged", "Label", "Subject", "judge", "known"]
