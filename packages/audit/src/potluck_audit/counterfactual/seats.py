"""From the names in records and requests to who plays a seat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play.specs import adapter, builtin
from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck_audit.errors import InvalidRequest

BUILTINS = {
    "frozen": policy_pb.BUILTIN_POLICY_FROZEN,
    "uniform": policy_pb.BUILTIN_POLICY_UNIFORM,
    "scripted": policy_pb.BUILTIN_POLICY_SCRIPTED,
}
BASELINES = {
    "noop": env_pb.BASELINE_NOOP,
    "uniform": env_pb.BASELINE_UNIFORM,
    "greedy": env_pb.BASELINE_GREEDY,
}
PLUGIN = "plugin:"
"""Before the name of a baseline of the env server's entry-point group potluck.baselines."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Seats(NamedTuple):
    """Who plays: agents asked at the policy server, and those that the env server plays."""

    policies: Mapping[str, policy_pb.Policy]
    baselines: Mapping[str, env_pb.Baseline.ValueType | str]

    @property
    def adapters(self) -> set[str]:
        return {policy.adapter for policy in self.policies.values() if policy.adapter}


def is_adapter(name: str) -> bool:
    return bool(_DIGEST.fullmatch(name))


def seats(own: Mapping[str, str], members: frozenset[str], baseline: str) -> Seats:
    """Members keep their own policy, in seat order; the others act by the baseline."""
    if not (baseline in BASELINES or baseline in BUILTINS or is_adapter(baseline) or baseline.startswith(PLUGIN)):
        known = "noop, uniform, greedy, frozen, scripted, an adapter digest or plugin:<name>"
        raise InvalidRequest("baseline", f"there is no baseline {baseline!r}", f"use {known}")
    policies: dict[str, policy_pb.Policy] = {}
    baselines: dict[str, env_pb.Baseline.ValueType | str] = {}
    for agent, name in own.items():
        member = agent in members
        chosen = name if member else baseline
        if is_adapter(chosen):
            policies[agent] = adapter(chosen)
        elif chosen in BUILTINS and (member or chosen not in BASELINES):
            policies[agent] = builtin(BUILTINS[chosen])
        elif chosen in BASELINES:
            baselines[agent] = BASELINES[chosen]
        elif chosen.startswith(PLUGIN):
            baselines[agent] = chosen.removeprefix(PLUGIN)
        else:
            raise InvalidRequest("set", f"{agent} was played by {chosen!r}, unknown here", "audit another episode set")
    return Seats(policies, baselines)
