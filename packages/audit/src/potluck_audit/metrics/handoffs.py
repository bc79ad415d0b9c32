"""Hand-offs with provenance: every change of hands on the way of an object from dispenser to window.

Each object's events give the chain of agents that held it. Where one agent's end and another's beginning meet there
is a transfer, of the kind of the store between them:

    counter   put down by one agent, taken up by another
    pot       an ingredient potted by one agent leaves the pot in a soup that another plates
    soup      a plated soup changes hands (plated by one agent, delivered by another)

A delivered soup owns the transfers of its ingredients, its dish and itself. In Forced Coordination the dispensers
lie on one side and the pots on the other, so that every soup owns at least four: fewer means that records or metric
are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import Check, EpisodeSet, Metric
from potluck_audit.records import Episode

KINDS = ("counter", "pot", "soup")
REQUIRED_TRANSFERS = {"overcooked/forced_coordination": 4}
"""Cross-agent transfers that a layout forces upon every delivered soup."""

_HOLDING = frozenset({"pickup", "drop", "pot", "plate", "deliver"})


class Transfer(NamedTuple):
    """One object from one agent to another."""

    step: int
    kind: str
    object: str
    giver: str
    taker: str


class Soup(NamedTuple):
    """A rewarded delivery."""

    step: int
    object: str
    plated_by: str
    delivered_by: str
    transfers: tuple[Transfer, ...]


@dataclass
class Provenance:
    """Who held what in one episode."""

    transfers: list[Transfer] = field(default_factory=list)
    soups: list[Soup] = field(default_factory=list)


def trace(episode: Episode) -> Provenance:
    """Follows all objects of an episode."""
    found = Provenance()
    holder: dict[str, str] = {}
    parts: dict[str, tuple[str, ...]] = {}
    plated_by: dict[str, str] = {}
    for step, event in episode.events:
        if not event.object or event.kind not in _HOLDING:
            continue
        if event.parts:
            parts[event.object] = tuple(event.parts)
        if event.kind == "plate":
            plated_by[event.object] = event.agent
            found.transfers += _plated(step, event, holder)
        elif (giver := holder.get(event.object, event.agent)) != event.agent:
            kind = "soup" if event.object in plated_by else "counter"
            found.transfers.append(Transfer(step, kind, event.object, giver, event.agent))
        holder[event.object] = event.agent
        if event.kind == "deliver" and event.reward > 0:
            found.soups.append(_delivered(step, event, parts, plated_by, found.transfers))
    return found


def _plated(step: int, event: env_pb.Event, holder: dict[str, str]) -> list[Transfer]:
    """The parts that others put into the pot (or held) reach the agent that plates."""
    givers = ((part, holder.get(part, event.agent)) for part in event.parts)
    return [Transfer(step, "pot", part, giver, event.agent) for part, giver in givers if giver != event.agent]


def _delivered(
    step: int,
    event: env_pb.Event,
    parts: dict[str, tuple[str, ...]],
    plated_by: dict[str, str],
    transfers: Sequence[Transfer],
) -> Soup:
    own = {event.object, *parts.get(event.object, ())}
    theirs = tuple(t for t in transfers if t.object in own)
    return Soup(step, event.object, plated_by.get(event.object, ""), event.agent, theirs)


def handoffs(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Transfers an episode by kind and direction, those per delivered soup, and who plates for whom."""
    traces = [trace(e) for e in episodes.episodes]
    if not any(e.events for e in episodes.episodes):
        return []
    soups = [float(len(t.soups)) for t in traces]
    metrics = []
    for kind in KINDS:
        counts = [float(sum(x.kind == kind for x in t.transfers)) for t in traces]
        metrics.append(Metric("handoffs", episodes.name, intervals.mean(counts), key=kind, unit="per episode"))
        owned = [float(sum(x.kind == kind for s in t.soups for x in s.transfers)) for t in traces]
        metrics.append(
            Metric("handoffs_per_soup", episodes.name, intervals.ratio(owned, soups), key=kind, unit="per soup")
        )
    owned = [float(sum(len(s.transfers) for s in t.soups)) for t in traces]
    metrics.append(Metric("handoffs_per_soup", episodes.name, intervals.ratio(owned, soups), unit="per soup"))
    everything = [float(len(t.transfers)) for t in traces]
    metrics.append(Metric("handoffs", episodes.name, intervals.mean(everything), unit="per episode"))
    metrics.append(
        Metric("handoffs_in_soups", episodes.name, intervals.ratio(owned, everything), unit="share of hand-offs")
    )
    return metrics + _directions(episodes, traces, soups, intervals) + _flow(episodes, traces, intervals)


def _directions(
    episodes: EpisodeSet, traces: Sequence[Provenance], soups: Sequence[float], intervals: Intervals
) -> list[Metric]:
    metrics = []
    for giver in episodes.agents:
        for taker in episodes.agents:
            served = [float(sum((s.plated_by, s.delivered_by) == (giver, taker) for s in t.soups)) for t in traces]
            share = intervals.ratio(served, soups)
            metrics.append(Metric("plated_delivered", episodes.name, share, giver, taker, "share of soups"))
            if giver != taker:
                given = [float(sum((x.giver, x.taker) == (giver, taker) for x in t.transfers)) for t in traces]
                mean = intervals.mean(given)
                metrics.append(Metric("handoffs_given", episodes.name, mean, giver, taker, "per episode"))
    return metrics


def flow_key(transfer: Transfer) -> str:
    """Taker, store and kind of object, such as "agent_1/pot/onion"."""
    return f"{transfer.taker}/{transfer.kind}/{transfer.object.partition('#')[0]}"


def parse_flow(key: str) -> tuple[str, str, str]:
    """Taker, store and kind of object of a `handoff_flow` row."""
    taker, store, thing = key.rsplit("/", 2)
    return taker, store, thing


def _flow(episodes: EpisodeSet, traces: Sequence[Provenance], intervals: Intervals) -> list[Metric]:
    """Who gives what to whom through what; only what happened at least once."""
    kinds = sorted({(x.giver, flow_key(x)) for t in traces for x in t.transfers})
    rows = []
    for giver, key in kinds:
        given = [float(sum((x.giver, flow_key(x)) == (giver, key) for x in t.transfers)) for t in traces]
        rows.append(Metric("handoff_flow", episodes.name, intervals.mean(given), giver, key, "per episode"))
    return rows


def transfer_check(episodes: EpisodeSet) -> list[Check]:
    """Every delivered soup owns the transfers that its layout forces."""
    required = REQUIRED_TRANSFERS.get(episodes.game)
    if required is None:
        return []
    soups = [s for e in episodes.episodes for s in trace(e).soups]
    rewarded = sum(e.team_return or 0.0 for e in episodes.episodes)
    name = f"at least {required} cross-agent transfers per delivered soup"
    if not soups:
        return [Check(name, episodes.name, None if rewarded == 0 else False, f"{rewarded:g} soups, none traced")]
    short = [s for s in soups if len(s.transfers) < required]
    fewest = min(len(s.transfers) for s in soups)
    return [Check(name, episodes.name, not short, f"{len(short)} of {len(soups)} soups have fewer; fewest {fewest}")]
