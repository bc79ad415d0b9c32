"""Coalition values of a round: its episodes played again with some agents replaced, on the same seeds.

For each member of the round and each coalition but the whole team, one more episode: agents of the coalition keep
their weights, the others act by the baseline, environment and samples take the member's seeds. That is 2^n − 1 more
episodes a member: 3 for two agents, 127 for seven. The whole team's value is the member's own return.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from potluck.env.v1.env_service_pb2 import Baseline
from potluck.play import EpisodeLost, EpisodeSpec, OnWave, adapter, builtin, play
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy, Policy
from potluck_trainer.algorithms.base import RoundReturns
from potluck_trainer.algorithms.credit import shapley
from potluck_trainer.errors import ConfigError, TrainerError
from potluck_trainer.rollouts import Collected
from potluck_trainer.session import Session

MOST_AGENTS = 7
PLAYED_BY_ENV = {"noop": Baseline.BASELINE_NOOP, "greedy": Baseline.BASELINE_GREEDY}
ASKED = {
    "frozen": BuiltinPolicy.BUILTIN_POLICY_FROZEN,
    "uniform": BuiltinPolicy.BUILTIN_POLICY_UNIFORM,
    "scripted": BuiltinPolicy.BUILTIN_POLICY_SCRIPTED,
}


@dataclass(frozen=True, slots=True)
class CoalitionReport:
    """What the coalitions of a round cost and gave, for `metrics.jsonl`."""

    baseline: str
    episodes: int
    decisions: int
    seconds: float
    empty_mean: float
    """Mean return of nobody: what the baseline earns by itself. It belongs to no agent."""
    credits: Mapping[str, float]
    """Agent -> mean credit; their sum is the mean return less `empty_mean`."""


async def with_credits(
    session: Session,
    digests: Mapping[str, str],
    collected: Collected,
    returns: RoundReturns,
    on_wave: OnWave | None = None,
) -> tuple[RoundReturns, CoalitionReport]:
    """The round's returns with each agent's credit in each episode. Raises TrainerError where an episode is lost."""
    agents, baseline = session.agents, session.config.algorithm.baseline
    if len(agents) > MOST_AGENTS:
        raise ConfigError(
            f"exact credit plays 2^n coalitions an episode and {session.game.name} has {len(agents)} agents, more than "
            f"{MOST_AGENTS}; use another algorithm"
        )
    began = time.perf_counter()
    specs = [
        _spec(session, digests, collected.results[member].spec, mask, baseline)
        for member in sorted(collected.results)
        for mask in range((1 << len(agents)) - 1)
    ]
    options = session.play_options(tokens=False, temperature=session.config.temperature)
    try:
        played = iter(await play(specs, session.envs, session.policy, options, on_wave))
    except EpisodeLost as error:
        raise TrainerError(f"a coalition's episode was lost: {error}; then go on with --resume") from error
    decisions, empty, credited = 0, 0.0, []
    for episode in returns.episodes:
        value = {(1 << len(agents)) - 1: episode.team_return}
        for mask in range((1 << len(agents)) - 1):
            result = next(played)
            value[mask] = result.finished.team_return
            decisions += len(result.decisions)
        empty += value[0] / len(returns.episodes)
        phi = shapley(len(agents), value)
        credited.append(replace(episode, credits=dict(zip(agents, phi.tolist(), strict=True))))
    report = CoalitionReport(
        baseline=baseline,
        episodes=len(specs),
        decisions=decisions,
        seconds=time.perf_counter() - began,
        empty_mean=empty,
        credits={a: sum(e.credits[a] for e in credited) / len(credited) for a in agents} if credited else {},
    )
    return RoundReturns(tuple(credited)), report


def _spec(session: Session, digests: Mapping[str, str], own: EpisodeSpec, mask: int, baseline: str) -> EpisodeSpec:
    members = [agent for place, agent in enumerate(session.agents) if mask >> place & 1]
    policies: dict[str, Policy] = {}
    baselines: dict[str, Baseline.ValueType | str] = {}
    for agent in session.agents:
        if agent in members:
            policies[agent] = adapter(digests[agent])
        elif baseline in PLAYED_BY_ENV:
            baselines[agent] = PLAYED_BY_ENV[baseline]
        else:
            policies[agent] = builtin(ASKED[baseline])
    name = "+".join(members) or "nobody"
    return replace(own, episode_id=f"{own.episode_id}-{name}", policies=policies, baselines=baselines)
