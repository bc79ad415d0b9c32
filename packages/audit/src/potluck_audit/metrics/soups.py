"""Who made the delivered soups: each agent's share of a soup's steps.

Two counts of steps, since the usual one gives nothing to the agent that brings what another cooks:

    making   pot each ingredient, cook, plate, deliver: six steps of a soup of three onions
    chain    these and fetching each ingredient and the dish from its dispenser: ten steps

A step that no agent did (cooking that starts by itself) is no step. Only rewarded deliveries are soups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.deliveries import gini
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.records import Episode
from potluck_audit.statistics import jackknife

COUNTS = ("making", "chain")


class SoupWork(NamedTuple):
    """The steps of one delivered soup, each by the agent that did it."""

    step: int
    object: str
    making: tuple[str, ...]
    fetching: tuple[str, ...]

    def by(self, count: str) -> tuple[str, ...]:
        return self.making if count == "making" else self.making + self.fetching


def soup_work(episode: Episode) -> list[SoupWork]:
    """Rewarded deliveries of an episode with who did what."""
    did: dict[tuple[str, str], str] = {}
    parts: dict[str, tuple[str, ...]] = {}
    soups = []
    for step, event in episode.events:
        if event.parts:
            parts[event.object] = tuple(event.parts)
        kind = "fetch" if event.kind == "pickup" and event.place == "dispenser" else event.kind
        did[kind, event.object] = event.agent
        if event.kind == "deliver" and event.reward > 0:
            own = parts.get(event.object, ())
            potted = [("pot", part) for part in own]
            making = [*potted, ("cook", event.object), ("plate", event.object), ("deliver", event.object)]
            fetching = [("fetch", part) for part in own]
            soups.append(SoupWork(step, event.object, _done(did, making), _done(did, fetching)))
    return soups


def _done(did: dict[tuple[str, str], str], steps: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(did[step] for step in steps if did.get(step))


def soup_shares(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """`soup_share` per agent and count of steps, its Gini index, and soups that one agent made from end to end."""
    if not any(e.events for e in episodes.episodes):
        return []
    work = [soup_work(e) for e in episodes.episodes]
    soups = np.array([len(w) for w in work], float)
    metrics = []
    for count in COUNTS:
        shares = np.array([[_share(w, agent, count) for agent in episodes.agents] for w in work])
        for seat, agent in enumerate(episodes.agents):
            share = intervals.ratio(shares[:, seat], soups)
            metrics.append(Metric("soup_share", episodes.name, share, agent, count, "share of a soup's steps"))
            alone = np.array([sum(set(one.by(count)) == {agent} for one in w) for w in work], float)
            whole = intervals.ratio(alone, soups)
            metrics.append(Metric("soups_alone", episodes.name, whole, agent, count, "share of soups"))
        index = jackknife(gini, shares, intervals)
        metrics.append(Metric("soup_share_gini", episodes.name, index, key=count, unit="index"))
        mixed = np.array([sum(len(set(one.by(count))) > 1 for one in w) for w in work], float)
        together = intervals.ratio(mixed, soups)
        metrics.append(Metric("soups_together", episodes.name, together, key=count, unit="share of soups"))
    return metrics


def _share(work: Sequence[SoupWork], agent: str, count: str) -> float:
    return sum(one.by(count).count(agent) / len(one.by(count)) for one in work)
