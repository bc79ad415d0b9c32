"""The team beside its members: solo values, synergy and necessity, from the returns of coalitions.

    synergy      v(N) - Σ v({i})      what the team earns beyond the sum of its members alone
    necessity    v(N) - v(N \\ i)      what the team loses without i

Both are paired by seed. What needs a coalition that was not played is left out.
"""

from __future__ import annotations

import numpy as np

from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import Metric


def cooperation(values: CoalitionValues, set_name: str, unit: str, intervals: Intervals) -> list[Metric]:
    returns = {members: np.array(r) for members, r in values.returns.items()}
    team, alone = values.everyone, [frozenset({p}) for p in values.players]
    ordered = sorted(returns, key=lambda members: (len(members), values.name(members)))
    metrics = [
        Metric("coalition", set_name, intervals.mean(list(returns[c])), key=values.name(c), unit=unit) for c in ordered
    ]
    for player in values.players:
        if (only := frozenset({player})) in returns:
            metrics.append(Metric("solo", set_name, intervals.mean(list(returns[only])), player, values.baseline, unit))
    if team in returns and all(one in returns for one in alone):
        synergy = returns[team] - sum(returns[one] for one in alone)
        metrics.append(Metric("synergy", set_name, intervals.mean(list(synergy)), key=values.baseline, unit=unit))
    for player in values.players:
        if team in returns and (without := team - {player}) in returns:
            loss = intervals.mean(list(returns[team] - returns[without]))
            metrics.append(Metric("necessity", set_name, loss, player, values.baseline, unit))
    return metrics
