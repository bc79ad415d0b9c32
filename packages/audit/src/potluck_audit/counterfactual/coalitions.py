"""Plays coalitions over an episode set's own seeds, with common random numbers.

Environment and policy samples take their seeds from the recorded episode, and every decision's sample from (sample
seed, agent, decision): until a coalition's state departs from the recorded one it repeats the recorded choices, and
afterwards the policies are asked again under the same noise. Before anything is credited, some episodes of the whole
team are played again and must come out exactly as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from potluck.common.v1 import common_pb2 as common_pb
from potluck.play.driver import play
from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.specs import EpisodeResult, EpisodeSpec, PlayOptions
from potluck_audit.counterfactual.adapters import held
from potluck_audit.counterfactual.seats import seats
from potluck_audit.counterfactual.values import Coalition, CoalitionValues
from potluck_audit.errors import Diverged, InvalidRequest, Unsupported
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.records import Episode

VERIFIED = 2
"""Episodes of the whole team that are played again before counterfactuals count."""
MAX_LIVE = 32

OnStage = Callable[[str, int, int], None]

_SCHEMES = {
    "letters": common_pb.LABEL_SCHEME_LETTERS,
    "words": common_pb.LABEL_SCHEME_WORDS,
}


@dataclass(frozen=True)
class Players:
    """Where counterfactuals are played."""

    envs: EnvPool
    policy: PolicyClient | None
    run: Path
    greedy: bool = False


async def complete(
    values: CoalitionValues, team: EpisodeSet, wanted: Sequence[Coalition], players: Players, on_stage: OnStage
) -> CoalitionValues:
    """Adds the returns of coalitions that have none yet."""
    missing = [c for c in wanted if c not in values.returns]
    if not missing:
        return values
    own = _own_policies(team)
    episodes = [e for e in team.episodes if e.seed in set(values.seeds)]
    returns = dict(values.returns)
    async with AsyncExitStack() as stack:
        await _hold(stack, players, own, [*missing, values.everyone], values.baseline)
        await _verify(episodes[:VERIFIED], own, players)
        for number, members in enumerate(missing):
            stage = f"playing {values.name(members) or 'nobody'} with {values.baseline} partners"
            on_stage(stage, number, len(missing))
            results = await _play(episodes, own, members, values.baseline, players)
            returns[members] = tuple(r.finished.team_return for r in results)
    on_stage("coalitions played", len(missing), len(missing))
    return replace(values, returns=returns)


def _own_policies(team: EpisodeSet) -> Mapping[str, str]:
    first = team.episodes[0]
    if any(dict(e.policies) != dict(first.policies) for e in team.episodes):
        raise Unsupported(f"the episodes of {team.name} were played by different policies", "audit sets of one team")
    return {agent: first.policies[agent] for agent in first.agents}


async def _hold(
    stack: AsyncExitStack, players: Players, own: Mapping[str, str], wanted: Sequence[Coalition], baseline: str
) -> None:
    plans = [seats(own, members, baseline) for members in wanted]
    if players.policy is None:
        if any(plan.policies for plan in plans):
            raise InvalidRequest("services.policy", "coalitions need the agents' policies", "name a policy server")
        return
    names = {digest: agent for agent, digest in own.items()}
    digests = {digest: names.get(digest, "baseline") for plan in plans for digest in sorted(plan.adapters)}
    await stack.enter_async_context(held(players.policy, digests, players.run))


async def _verify(episodes: Sequence[Episode], own: Mapping[str, str], players: Players) -> None:
    results = await _play(episodes, own, frozenset(own), "noop", players)
    for episode, result in zip(episodes, results, strict=True):
        if result.digest != episode.digest:
            raise Diverged(
                f"the team's episode {episode.episode_id} (seed {episode.seed}) does not come out as recorded when it "
                "is played again, so that counterfactuals would not rest on it",
                "use the env server, backbone and sampling settings that the run was recorded with",
            )


async def _play(
    episodes: Sequence[Episode], own: Mapping[str, str], members: Coalition, baseline: str, players: Players
) -> list[EpisodeResult]:
    plan = seats(own, members, baseline)
    specs = [
        EpisodeSpec(
            episode_id=f"audit-{'.'.join(sorted(members)) or 'nobody'}-{e.seed}",
            game=e.game,
            seed=e.seed,
            horizon=e.horizon,
            policies=plan.policies,
            baselines=plan.baselines,
            interface=e.interface,
            sample_seed=e.sample_seed,
        )
        for e in episodes
    ]
    options = PlayOptions(
        temperature=episodes[0].temperature or 1.0,
        greedy=players.greedy or episodes[0].temperature == 0.0,
        label_scheme=_SCHEMES.get(episodes[0].label_scheme, common_pb.LABEL_SCHEME_UNSPECIFIED),
        max_live=MAX_LIVE,
    )
    return await play(specs, players.envs, players.policy if plan.policies else None, options)
