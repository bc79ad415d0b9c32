"""All metrics and checks that an episode set's own records give."""

from __future__ import annotations

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.deliveries import deliveries
from potluck_audit.metrics.handoffs import handoffs, transfer_check
from potluck_audit.metrics.idle import idle_shares
from potluck_audit.metrics.interdependence import interdependence
from potluck_audit.metrics.labour import labour
from potluck_audit.metrics.metric import Check, EpisodeSet, Metric
from potluck_audit.metrics.options import divergence, option_shares
from potluck_audit.metrics.outcomes import outcomes
from potluck_audit.metrics.patches import commons
from potluck_audit.metrics.paths import paths
from potluck_audit.metrics.returns import team_return
from potluck_audit.metrics.river import river
from potluck_audit.metrics.roles import roles
from potluck_audit.metrics.soups import soup_shares
from potluck_audit.metrics.substrates import is_commons
from potluck_audit.metrics.testing import p_value_rows

MEASURES = (
    team_return,
    option_shares,
    divergence,
    idle_shares,
    paths,
    outcomes,
    commons,
    river,
)
KITCHEN = (deliveries, handoffs, soup_shares, interdependence)
"""Measures of objects that agents hold; a commons has none, and zeros there would say that nobody cooperates."""
TESTED = (labour, roles)
"""Measures that also test against a permutation baseline; their p-values stand side by side and are corrected."""


def behaviour(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """All rows of one set; the tests last."""
    measures = MEASURES if is_commons(episodes) else (*MEASURES, *KITCHEN)
    metrics = [metric for measure in measures for metric in measure(episodes, intervals)]
    p_values: dict[str, float | None] = {}
    for measure in TESTED:
        rows, tests = measure(episodes, intervals)
        metrics += rows
        p_values |= tests
    return metrics + p_value_rows(episodes.name, p_values, len(episodes.episodes))


def checks(episodes: EpisodeSet) -> list[Check]:
    return [*transfer_check(episodes), *_returns_check(episodes)]


def _returns_check(episodes: EpisodeSet) -> list[Check]:
    """The recorded return is what the recorded steps paid."""
    known = [e for e in episodes.episodes if e.progress.steps and e.team_return is not None]
    # "not within" and not "beyond": a step that paid NaN is within nothing
    wrong = [e for e in known if not abs(sum(s.reward for s in e.progress.steps) - (e.team_return or 0.0)) <= 1e-9]
    name = "step rewards add up to the recorded return"
    if not known:
        return [Check(name, episodes.name, None, "no step records")]
    named = f": {wrong[0].episode_id}" if wrong else ""
    return [Check(name, episodes.name, not wrong, f"{len(wrong)} of {len(known)} episodes differ{named}")]
