"""Packs replayed episodes for <game-replay>: frames refer to a menu by number, since a menu lasts many steps.

{episodes: [{title, unit, width, height, kinds, tiles, agents, policies,
             menus:  [{at, letter, items: [[letter, text, probability|null], ...]}, ...],
             frames: [[step, return, [[kind, x, y, facing, seat, held, label], ...],
                                     [[option, target, menu|-1], ...]], ...]}]}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck_audit.records import Episode


class ReplayedEpisode(NamedTuple):
    """A recorded episode and its re-execution."""

    title: str
    episode: Episode
    replay: env_pb.ReplayResponse


def replay_data(replayed: Sequence[ReplayedEpisode]) -> dict[str, Any]:
    return {"episodes": [_episode(r) for r in replayed]}


def short_policy(name: str) -> str:
    """Digests are shortened to what a person can compare."""
    return f"adapter {name[:8]}" if len(name) == 64 else name


def _episode(replayed: ReplayedEpisode) -> dict[str, Any]:
    scene, episode = replayed.replay.scene, replayed.episode
    kinds = list(dict.fromkeys(scene.tiles))
    menus = _Menus(episode)
    frames = [
        [frame.step, frame.team_return, [_sprite(s) for s in frame.sprites], [menus.view(a) for a in frame.agents]]
        for frame in replayed.replay.frames
    ]
    return {
        "title": replayed.title,
        "unit": episode.reward_unit,
        "width": scene.width,
        "height": scene.height,
        "kinds": kinds,
        "tiles": [kinds.index(tile) for tile in scene.tiles],
        "agents": list(episode.agents),
        "policies": [short_policy(episode.policies[a]) for a in episode.agents],
        "menus": menus.packed,
        "frames": frames,
    }


def _sprite(sprite: env_pb.Sprite) -> list[Any]:
    x, y = round(sprite.x, 3), round(sprite.y, 3)
    return [sprite.kind, x, y, sprite.facing, sprite.seat, sprite.held, sprite.label]


class _Menus:
    """Numbers the menus of an episode and joins them with the recorded probabilities."""

    def __init__(self, episode: Episode) -> None:
        self.packed: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._chances = {(d.agent, d.step): d.probabilities for d in episode.decisions}

    def view(self, agent: env_pb.AgentView) -> list[Any]:
        return [agent.option, agent.target, self._number(agent) if agent.items else -1]

    def _number(self, agent: env_pb.AgentView) -> int:
        key = (agent.agent, agent.decided_at)
        if key not in self._numbers:
            chances = self._chances.get(key, ())
            known = len(chances) == len(agent.items)
            items = [[i.letter, i.text, round(chances[n], 4) if known else None] for n, i in enumerate(agent.items)]
            self._numbers[key] = len(self.packed)
            self.packed.append({"at": agent.decided_at, "letter": agent.letter, "items": items})
        return self._numbers[key]
