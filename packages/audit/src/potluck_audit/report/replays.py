"""Fetches what the replay shows: a few episodes of the trained and the frozen team, executed again by an env server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play.pool import EnvPool
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.metrics.metric import Check, EpisodeSet
from potluck_audit.records import Episode
from potluck_audit.report.replay_data import ReplayedEpisode

NOT_HERE = (Reason.UNSUPPORTED, Reason.ENGINE_TIMEOUT, Reason.ENGINE_CRASHED)
"""Why an episode has no pictures although nothing is wrong with its record."""

CHECK = "recorded episodes execute again to the same trajectory"


def picks(groups: Iterable[EpisodeSet], also: Sequence[str] = ()) -> list[tuple[str, Episode]]:
    """Best, median and worst of the trained team; the median of every other one. Solo games come last.

    Episodes of which something is told (`also`, by id) stand before the others of their set.
    """
    chosen: list[tuple[str, Episode]] = []
    for group in sorted(groups, key=lambda g: (g.name != "eval/trained", g.name.startswith("eval/solo"), g.name)):
        ranked = sorted((e for e in group.episodes if e.recording), key=lambda e: (-(e.team_return or 0.0), e.seed))
        if not ranked:
            continue
        places = {"median": (len(ranked) - 1) // 2}
        if group.name == "eval/trained":
            places = {"best": 0, **places, "worst": len(ranked) - 1}
        told = {f"told of, {place + 1}.": place for place, e in enumerate(ranked) if e.episode_id in also}
        for word, place in {**told, **places}.items():
            episode = ranked[place]
            if all(episode is not other for _, other in chosen):
                label = group.name.removeprefix("eval/").replace("/", " ")
                gained = f"{episode.team_return:g} {group.unit}" if episode.team_return is not None else "no return"
                chosen.append((f"{label}, {word} of {len(ranked)}: seed {episode.seed}, {gained}", episode))
    return chosen


async def fetch(chosen: Sequence[tuple[str, Episode]], envs: EnvPool) -> tuple[list[ReplayedEpisode], Check]:
    """The replays, and whether all were exact. An episode that cannot be executed here is left out and named."""
    replayed: list[ReplayedEpisode] = []
    wrong: list[str] = []
    lost: list[str] = []
    for title, episode in chosen:
        recording = env_pb.Recording.FromString(episode.recording)
        if episode.digest != recording.digest:
            wrong.append(f"{episode.episode_id}: its row and its recording tell different digests")
            continue
        try:
            replayed.append(ReplayedEpisode(title, episode, await envs.replay(recording, frames=True)))
        except PotluckError as error:
            if error.reason not in (Reason.REPLAY_DIVERGED, *NOT_HERE):
                raise
            (wrong if error.reason == Reason.REPLAY_DIVERGED else lost).append(f"{episode.episode_id}: {error.message}")
    passed = False if wrong else True if replayed else None
    detail = "; ".join([*wrong, f"{len(replayed)} of {len(chosen)} executed", *lost])
    return replayed, Check(CHECK, "all", passed, detail)
