"""Interdependence: which hand-offs served the task (after Biswas et al., arXiv:2502.06976).

Every cross-agent transfer is a giver's action on which a taker's action depends. Its class, first that fits:

    looping           the object came back to an agent that had it before, in the same form: the round trip did nothing
    irrelevant        the object never reached a delivery
    non_constructive  it reached a delivery that paid nothing
    constructive      it reached a rewarded delivery

Loops are cut out of the object's chain of holders: of A to B to A to B the first two transfers loop and the third
stands. Potting ends a form, so that an onion given to the agent that pots it and plated by the giver is no loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.handoffs import Transfer, trace
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.records import Episode

CLASSES = ("constructive", "non_constructive", "looping", "irrelevant")


def classify(episode: Episode) -> list[tuple[Transfer, str]]:
    """All transfers of an episode with their classes, in order."""
    transfers = trace(episode).transfers
    looping = _looping(transfers)
    paid, unpaid = _delivered(episode, paid=True), _delivered(episode, paid=False)
    found = []
    for place, transfer in enumerate(transfers):
        if place in looping:
            kind = "looping"
        elif transfer.object in paid:
            kind = "constructive"
        else:
            kind = "non_constructive" if transfer.object in unpaid else "irrelevant"
        found.append((transfer, kind))
    return found


def _looping(transfers: Sequence[Transfer]) -> set[int]:
    """Places of the transfers that a round trip undid."""
    chains: dict[str, list[int]] = {}
    looping: set[int] = set()
    for place, transfer in enumerate(transfers):
        if transfer.kind == "pot":
            continue
        chain = chains.setdefault(transfer.object, [])
        givers = [transfers[earlier].giver for earlier in chain]
        if transfer.taker in givers:
            back = givers.index(transfer.taker)
            looping.update(chain[back:], {place})
            del chain[back:]
        else:
            chain.append(place)
    return looping


def _delivered(episode: Episode, *, paid: bool) -> set[str]:
    """Objects in deliveries that paid, or that did not."""
    parts: dict[str, tuple[str, ...]] = {}
    found: set[str] = set()
    for _, event in episode.events:
        if event.parts:
            parts[event.object] = tuple(event.parts)
        if event.kind == "deliver" and (event.reward > 0) == paid:
            found.update({event.object}, parts.get(event.object, ()))
    return found


def interdependence(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Per class: transfers an episode, share of all transfers, and number per rewarded delivery."""
    if not any(e.events for e in episodes.episodes):
        return []
    counts = [Counter(kind for _, kind in classify(e)) for e in episodes.episodes]
    totals = [float(c.total()) for c in counts]
    soups = [float(len(trace(e).soups)) for e in episodes.episodes]
    metrics = []
    for kind in CLASSES:
        own = [float(c[kind]) for c in counts]
        share, rate = intervals.ratio(own, totals), intervals.ratio(own, soups)
        metrics.append(Metric("interdependence", episodes.name, intervals.mean(own), key=kind, unit="per episode"))
        metrics.append(Metric("interdependence_share", episodes.name, share, key=kind, unit="share of hand-offs"))
        metrics.append(Metric("interdependence_per_soup", episodes.name, rate, key=kind, unit="per soup"))
    return metrics
