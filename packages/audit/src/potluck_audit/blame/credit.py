"""Agents' credit in single episodes, and its shares among their decisions.

The credit is the Shapley value over coalitions that are played on the episode's own seeds (see `counterfactual`): it
adds up to v(N) - v(∅) in every episode. A judge's labels share it out in the two-pool form, so that the shares of an
agent add up to its credit exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from potluck_audit.blame.errors import NeverActed
from potluck_audit.blame.judges.base import DecisionJudge, Judged, Subject
from potluck_audit.blame.results import DecisionShare
from potluck_audit.blame.shares import two_pool
from potluck_audit.counterfactual.coalitions import Players, complete
from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.errors import Unsupported
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.progress import OnStage
from potluck_audit.shapley import coalitions, shapley_values

MAX_AGENTS = 7


async def episode_credits(
    group: EpisodeSet, players: Players, baseline: str, on_stage: OnStage
) -> dict[str, dict[str, float]]:
    """Episode id -> agent -> credit. Raises Diverged where the team does not play again as recorded."""
    if len(group.agents) > MAX_AGENTS:
        raise Unsupported(
            f"credit of single episodes is exact, for at most {MAX_AGENTS} agents, and {group.name} has "
            f"{len(group.agents)}",
            "share the credit of a smaller team",
        )
    seeds = tuple(e.seed for e in group.episodes)
    own = tuple(e.team_return for e in group.episodes if e.team_return is not None)
    if len(own) != len(seeds):
        raise Unsupported(f"an episode of {group.name} has no return", "choose episodes whose rewards are numbers")
    values = CoalitionValues(group.agents, baseline, seeds, {frozenset(group.agents): own})
    full = await complete(values, group, list(coalitions(group.agents)), players, on_stage)
    return {
        episode.episode_id: shapley_values(group.agents, {c: returns[at] for c, returns in full.returns.items()})
        for at, episode in enumerate(group.episodes)
    }


async def decision_shares(
    subject: Subject, credit: float, judges: Sequence[DecisionJudge]
) -> tuple[list[DecisionShare], Mapping[str, Judged]]:
    """The agent's credit by decision, one row for every decision and judge. Raises NeverActed.

    Where a judge has no label for any decision there are no shares (None), rather than equal ones.
    """
    decisions, case = subject.decisions, subject.case
    if not decisions:
        raise NeverActed(subject.agent, case.episode_id)
    found: list[DecisionShare] = []
    judged: dict[str, Judged] = {}
    for one in judges:
        said = judged[one.name] = await one.judge(subject)
        labels = [label.value for label in said.labels]
        nothing = all(label is None for label in labels)
        shares = [None] * len(labels) if nothing else two_pool(labels, credit)
        for decision, label, part in zip(decisions, said.labels, shares, strict=True):
            found.append(
                DecisionShare(
                    set=case.set,
                    episode_id=case.episode_id,
                    agent=subject.agent,
                    decision=decision.decision,
                    boundary=decision.boundary,
                    step=decision.step,
                    option=decision.item.option,
                    target=decision.item.target,
                    judge=one.name,
                    label=label.value,
                    label_se=label.se,
                    share=part,
                    credit=credit,
                )
            )
    return found, judged
