"""Who plays which seat in a counterfactual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from potluck_audit.counterfactual.seats import Seats, seats


@dataclass(frozen=True)
class Lineup:
    """`members` act by their policy in `own`; every other agent of `own` acts by the baseline."""

    own: Mapping[str, str]
    """Agent to adapter digest, builtin or baseline, in seat order."""
    members: frozenset[str]
    baseline: str

    @property
    def seats(self) -> Seats:
        return seats(self.own, self.members, self.baseline)

    @property
    def label(self) -> str:
        """Such as `agent_0+agent_2`; `nobody` for the empty coalition."""
        return "+".join(agent for agent in self.own if agent in self.members) or "nobody"

    def parts(self) -> dict[str, str]:
        """By seat; what is the same for two line-ups is the same play."""
        return {
            agent: f"own {policy}" if agent in self.members else f"baseline {self.baseline}"
            for agent, policy in self.own.items()
        }

    @property
    def adapters(self) -> dict[str, str]:
        """Digest to the agent that it is for."""
        names = {digest: agent for agent, digest in self.own.items()}
        return {digest: names.get(digest, "baseline") for digest in sorted(self.seats.adapters)}


def whole(own: Mapping[str, str]) -> Lineup:
    """Everybody keeps the own policy."""
    return Lineup(own, frozenset(own), "noop")
