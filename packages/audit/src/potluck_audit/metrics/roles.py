"""Roles: what an agent spends its time on, whether it keeps to it, and whether other teams split the work alike.

Rule: every agent's time-weighted option histogram (of one episode, or of all episodes where teams are compared) is
clustered with all others by average linkage on the Jensen-Shannon distance (the root of the divergence in bits); the
tree is cut at .5, a divergence of a quarter of a bit. A role is a cluster. It is called by its dominant options: the
fewest that fill half of its members' time together, and the next ones where two roles would share a name. An agent
that chose nothing has no role.

Persistence over episodes is the share of agents that have the same role in two episodes, over all pairs of episodes.
Its baseline deals the roles of each episode to the seats at random. One role for everybody persists trivially, and
its baseline is 1 too.

Agreement over teams (training seeds) is the share of agents whose role has a partner of the same role in the other
team when seats are matched as well as can be (`linear_sum_assignment`), over all pairs of teams. Matching alone makes
agreement: the baseline deals all roles to all seats of all teams at random and matches as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck_audit.errors import InvalidRequest
from potluck_audit.intervals import Floats, Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.options import option_counts, option_names
from potluck_audit.metrics.testing import p_value_rows
from potluck_audit.statistics import baseline, draws_of, exceedance, pair_mean

CUT = 0.5
"""Jensen-Shannon distance at which roles part."""
NO_ROLE = -1

Labels = NDArray[np.int64]


def clusters(histograms: Floats, cut: float = CUT) -> Labels:
    """Role of each row of weights, numbered by first appearance; -1 for a row of zeros."""
    found = np.full(len(histograms), NO_ROLE)
    acted = histograms.sum(axis=1) > 0
    shares = histograms[acted] / histograms[acted].sum(axis=1, keepdims=True)
    if not len(shares):
        return found
    if len(shares) == 1:
        found[acted] = 0
        return found
    from scipy.cluster import hierarchy  # two seconds of CPU: not before there is something to cluster
    from scipy.spatial.distance import pdist

    distances = np.nan_to_num(pdist(shares, "jensenshannon")) / np.sqrt(np.log(2))
    raw = hierarchy.fcluster(hierarchy.linkage(distances, "average"), cut, "distance")
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    found[acted] = first.argsort().argsort()[inverse]
    return found


def role_names(histograms: Floats, labels: Labels, options: Sequence[str]) -> list[str]:
    """The dominant options of each role, and as many more as tell it from the other roles."""
    orders, lengths = [], []
    for role in range(labels.max(initial=NO_ROLE) + 1):
        members = histograms[labels == role]
        shares = (members / members.sum(axis=1, keepdims=True)).mean(axis=0)
        order = sorted(range(len(options)), key=lambda place: (-shares[place], options[place]))
        orders.append([options[place] for place in order if shares[place] > 0])
        lengths.append(int(np.searchsorted(np.cumsum(shares[order]), 0.5 - 1e-12)) + 1)
    for _ in options:
        names = ["+".join(order[:length]) for order, length in zip(orders, lengths, strict=True)]
        lengths = [length + (names.count(name) > 1) for length, name in zip(lengths, names, strict=True)]
    return [
        f"{name} #{names[:role].count(name) + 1}" if names.count(name) > 1 else name for role, name in enumerate(names)
    ]


def roles(episodes: EpisodeSet, intervals: Intervals) -> tuple[list[Metric], dict[str, float | None]]:
    """`role_share`, `roles_per_episode`, `role_persistence` with baseline, and the p-value of persistence."""
    agents, options = episodes.agents, option_names(episodes)
    if len(agents) < 2 or not options:
        return [], {}
    weights = option_counts(episodes, options, "time")
    flat = weights.reshape(-1, len(options))
    labels = clusters(flat)
    names = role_names(flat, labels, options)
    played = labels.reshape(len(episodes.episodes), len(agents))
    metrics = []
    for seat, agent in enumerate(agents):
        acted = (played[:, seat] != NO_ROLE).astype(float)
        for role, name in enumerate(names):
            share = intervals.ratio((played[:, seat] == role).astype(float), acted)
            metrics.append(Metric("role_share", episodes.name, share, agent, name, "share of episodes"))
    distinct = [float(len(set(row) - {NO_ROLE})) or None for row in played.tolist()]
    metrics.append(Metric("roles_per_episode", episodes.name, intervals.mean(distinct), unit="roles"))
    kept, p_values = _persistence(episodes, played, intervals)
    return metrics + kept, p_values


def _persistence(
    episodes: EpisodeSet, played: Labels, intervals: Intervals
) -> tuple[list[Metric], dict[str, float | None]]:
    acted = (played != NO_ROLE).astype(float)
    same = ((played[:, None] == played[None]) & (acted[:, None] * acted[None] > 0)).sum(axis=2)
    estimate = pair_mean(same, acted @ acted.T, intervals)
    null = _dealt_persistence(played, intervals)
    chance = baseline(null, intervals, len(played))
    metrics = [
        Metric("role_persistence", episodes.name, estimate, key="episodes", unit="share"),
        Metric("role_persistence_baseline", episodes.name, chance, key="episodes", unit="share"),
    ]
    return metrics, {"role_persistence": exceedance(estimate.value, null)}


def _dealt_persistence(played: Labels, intervals: Intervals) -> Floats:
    """Persistence after the roles of each episode were dealt to the agents that acted in it."""
    draws, count = draws_of(intervals), int(played.max(initial=NO_ROLE)) + 1
    generator = np.random.default_rng(intervals.seed)
    together = np.zeros((draws, played.shape[1], max(count, 1)))
    for row in played:
        seats = np.flatnonzero(row != NO_ROLE)
        if len(seats):
            deal = row[seats][generator.random((draws, len(seats))).argsort(axis=1)]
            together[np.arange(draws)[:, None], seats, deal] += 1
    acted = (played != NO_ROLE).sum(axis=0)
    pairs = float((acted * (acted - 1)).sum())
    if not pairs:
        return np.empty(0)
    null: Floats = (together * (together - 1)).sum(axis=(1, 2)) / pairs
    return null


def matched_agreement(ours: Any, theirs: Any) -> float:
    """Share of seats whose roles agree under the best matching of seats; an agent without a role agrees with none."""
    from scipy.optimize import linear_sum_assignment

    mine, other = np.asarray(ours), np.asarray(theirs)
    equal = (mine[:, None] == other[None]) & (mine[:, None] != NO_ROLE)
    rows, columns = linear_sum_assignment(equal, maximize=True)
    return float(equal[rows, columns].mean())


def roles_across(teams: Sequence[EpisodeSet], intervals: Intervals, name: str = "teams") -> list[Metric]:
    """Role agreement of teams, each of another training seed: `role_agreement` (keys "matched", "seats") with
    baselines and tests; the unit is a team. Teams of different games, libraries or sizes are refused."""
    _comparable(teams)
    options = tuple(sorted({option for team in teams for option in option_names(team)}))
    histograms = np.array([option_counts(team, options, "time").sum(axis=0) for team in teams])
    flat = histograms.reshape(-1, len(options))
    played = clusters(flat).reshape(len(teams), -1)
    metrics, p_values = [], {}
    for key, agreement in (("matched", matched_agreement), ("seats", _seat_agreement)):
        estimate = pair_mean(_pairwise(played, agreement), np.ones((len(teams), len(teams))), intervals)
        null = _dealt_agreement(played, agreement, intervals)
        p_values[f"role_agreement_{key}"] = exceedance(estimate.value, null)
        chance = baseline(null, intervals, len(teams))
        metrics.append(Metric("role_agreement", name, estimate, key=key, unit="share"))
        metrics.append(Metric("role_agreement_baseline", name, chance, key=key, unit="share"))
    return metrics + p_value_rows(name, p_values, len(teams))


def _seat_agreement(ours: Any, theirs: Any) -> float:
    return float(((ours == theirs) & (ours != NO_ROLE)).mean())


def _pairwise(played: Labels, agreement: Any) -> Floats:
    return np.array([[agreement(one, other) for other in played] for one in played])


def _dealt_agreement(played: Labels, agreement: Any, intervals: Intervals) -> Floats:
    generator = np.random.default_rng(intervals.seed)
    first, second = np.triu_indices(len(played), 1)
    null = []
    for _ in range(min(draws_of(intervals), 500)):
        dealt = generator.permutation(played.ravel()).reshape(played.shape)
        null.append(np.mean([agreement(dealt[a], dealt[b]) for a, b in zip(first, second, strict=True)]))
    return np.array(null)


def _comparable(teams: Sequence[EpisodeSet]) -> None:
    if len(teams) < 2:
        raise InvalidRequest("sets", "roles are compared between two teams or more", "name the sets of more seeds")
    for what, of in (
        ("games", lambda team: team.game),
        ("option libraries", lambda team: tuple(sorted({e.library_digest for e in team.episodes}))),
        ("numbers of agents", lambda team: len(team.agents)),
    ):
        if len({of(team) for team in teams}) > 1:
            raise InvalidRequest("sets", f"the teams have different {what}", "compare teams of one game and library")
    for team in teams:
        if not any(e.options for e in team.episodes):
            raise InvalidRequest("sets", f"{team.name} holds no decision", "compare sets with decision records")
