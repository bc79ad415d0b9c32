"""The cheap judge: how the chosen item stands in the game's own greedy heuristic, against the mean of the menu.

It plays nothing and knows no future; it is there to be compared with.
"""

from __future__ import annotations

from math import fsum

from potluck_audit.blame.judges.base import Bench, Judged, Label, Subject


class Greedy:
    """label = greedy value of the chosen item - mean greedy value of the menu."""

    name = "greedy"

    def __init__(self, bench: Bench) -> None:
        """Needs nothing."""

    async def judge(self, subject: Subject) -> Judged:
        labels = []
        for decision in subject.decisions:
            values = [item.greedy for item in decision.prompt.items]
            labels.append(Label(values[decision.index] - fsum(values) / len(values)))
        return Judged(tuple(labels))
