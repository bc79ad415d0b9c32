"""Plays the coalitions of a recorded team over its own seeds.

Before anything is credited the records are held against the servers: every recorded trajectory must execute again to
the same digest, and some episodes of the whole team, played again by its policies, must come out exactly as recorded.
What a coalition earned is kept in the run's `audit/` folder; the key names the verified records, so that changed
records are verified and played anew.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.counterfactual.lineups import Lineup, whole
from potluck_audit.counterfactual.playing import Players, Stage
from potluck_audit.counterfactual.setting import setting_of
from potluck_audit.counterfactual.values import Coalition, CoalitionValues
from potluck_audit.errors import Diverged, Unsupported
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.progress import OnStage
from potluck_audit.records import Episode

__all__ = ["VERIFIED", "OnStage", "Players", "complete", "own_policies"]

VERIFIED = 2
"""Episodes of the whole team that are played again before counterfactuals count."""

REPLAYS_AT_ONCE = 4


async def complete(
    values: CoalitionValues, team: EpisodeSet, wanted: Sequence[Coalition], players: Players, on_stage: OnStage
) -> CoalitionValues:
    """Adds the returns of coalitions that have none yet."""
    missing = [c for c in wanted if c not in values.returns]
    if not missing:
        return values
    own = own_policies(team)
    episodes = [e for e in team.episodes if e.seed in set(values.seeds)]
    setting = setting_of(EpisodeSet(team.name, episodes, team.unit), players.greedy)
    records = hashlib.sha256("\n".join(e.digest for e in episodes).encode()).hexdigest()
    stage = Stage(setting, players.run, team.name, verified=records)

    async def verify() -> None:
        on_stage("executing the records again", 0, len(episodes))
        await _execute_again(episodes, players)
        on_stage("playing the team again", 0, min(VERIFIED, len(episodes)))
        await _play_again(episodes[:VERIFIED], own, stage, players)

    lineups = [Lineup(own, members, values.baseline) for members in missing]
    played = await stage.play(lineups, players, on_stage, verify, [whole(own)])
    returns = {c: tuple(one.team_return for one in p) for c, p in zip(missing, played, strict=True)}
    return replace(values, returns={**values.returns, **returns})


def own_policies(team: EpisodeSet) -> Mapping[str, str]:
    """Agent to policy, in seat order. Raises Unsupported where the set's episodes were played by different teams."""
    first = team.episodes[0]
    if any(dict(e.policies) != dict(first.policies) for e in team.episodes):
        raise Unsupported(f"the episodes of {team.name} were played by different policies", "audit sets of one team")
    return {agent: first.policies[agent] for agent in first.agents}


async def _execute_again(episodes: Sequence[Episode], players: Players) -> None:
    """Every recording leads to its own digest, or there is no credit."""
    turn = asyncio.Semaphore(REPLAYS_AT_ONCE)

    async def one(episode: Episode) -> None:
        recording = env_pb.Recording.FromString(episode.recording)
        if recording.digest != episode.digest:
            raise Diverged(
                f"episode {episode.episode_id} (seed {episode.seed}) says that its trajectory is {episode.digest[:12]} "
                f"and its recording that it is {recording.digest[:12]}",
                "restore the run's records from a copy",
            )
        async with turn:
            try:
                await players.envs.replay(recording)
            except PotluckError as error:
                if error.reason != Reason.UNSUPPORTED:
                    raise
                raise Unsupported(
                    f"{episode.game} cannot be executed again from a recording, so that nothing counterfactual rests "
                    "on its records",
                    "ask the game's author for exact replay (the conformance suite tests it)",
                ) from error

    await asyncio.gather(*(one(episode) for episode in episodes if episode.recording))


async def _play_again(episodes: Sequence[Episode], own: Mapping[str, str], stage: Stage, players: Players) -> None:
    (played,) = await stage.play_now([whole(own)], players, len(episodes))
    for episode, again in zip(episodes, played, strict=True):
        if again.digest != episode.digest:
            raise Diverged(
                f"the team's episode {episode.episode_id} (seed {episode.seed}) does not come out as recorded when it "
                "is played again, so that counterfactuals would not rest on it",
                "use the env server, backbone and sampling settings that the run was recorded with",
            )
