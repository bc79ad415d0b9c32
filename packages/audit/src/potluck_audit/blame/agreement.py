"""Do two judges say the same of the same decisions?

Kendall's tau-b of their labels (order) and Cohen's kappa of the labels' signs (helped, no difference, hurt). Decisions
that either judge has no label for are left out. Decisions of one episode hang together, so intervals resample whole
episodes; with one episode there is none. Undefined (a judge that says the same of everything) stays undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from potluck_audit.blame.results import Agreement, DecisionShare
from potluck_audit.intervals import Floats

RESAMPLES = 2_000

Statistic = Callable[[Floats, Floats], float | None]


def kendall_tau(first: Floats, second: Floats) -> float | None:
    """Tau-b; None where it is undefined."""
    from scipy import stats  # seconds of CPU: not before there is something to compare

    if len(first) < 2:
        return None
    found = float(stats.kendalltau(first, second).statistic)
    return found if math.isfinite(found) else None


def cohen_kappa(first: Floats, second: Floats) -> float | None:
    """(p_o - p_e) / (1 - p_e) of the signs; None where chance alone gives full agreement."""
    if not len(first):
        return None
    one, other = np.sign(first), np.sign(second)
    observed = float((one == other).mean())
    expected = sum(float((one == s).mean() * (other == s).mean()) for s in (-1, 0, 1))
    return None if expected >= 1 else (observed - expected) / (1 - expected)


MEASURES: dict[str, Statistic] = {"kendall_tau": kendall_tau, "cohen_kappa": cohen_kappa}


def agreements(shares: Sequence[DecisionShare], confidence: float = 0.95, seed: int = 0) -> list[Agreement]:
    """Of every two judges, by both measures."""
    labels: dict[str, dict[tuple[str, str, str, int], float]] = {}
    for one in shares:
        own = labels.setdefault(one.judge, {})
        if one.label is not None:
            own[one.set, one.episode_id, one.agent, one.decision] = one.label
    found = []
    for first, second in combinations(labels, 2):
        common = sorted(labels[first].keys() & labels[second].keys())
        groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for key in common:
            groups.setdefault(key[:2], []).append((labels[first][key], labels[second][key]))
        for measure, statistic in MEASURES.items():
            value, low, high = _estimate(statistic, groups, confidence, seed)
            found.append(Agreement(first, second, measure, value, low, high, len(common), len(groups)))
    return found


def _estimate(
    statistic: Statistic, groups: Mapping[tuple[str, str], Sequence[tuple[float, float]]], confidence: float, seed: int
) -> tuple[float | None, float | None, float | None]:
    parts = [np.array(pairs, float) for pairs in groups.values()]
    if not parts:
        return None, None, None
    whole = np.concatenate(parts)
    value = statistic(whole[:, 0], whole[:, 1])
    if value is None or len(parts) == 1:
        return value, None, None
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(RESAMPLES):
        sample = np.concatenate([parts[at] for at in rng.integers(len(parts), size=len(parts))])
        again = statistic(sample[:, 0], sample[:, 1])
        if again is not None:
            drawn.append(again)
    if not drawn:
        return value, None, None
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return value, float(low), float(high)
