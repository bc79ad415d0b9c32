"""Packs replayed episodes for <game-replay>: frames refer to a menu by number, since a menu lasts many steps.

{episodes: [{id, title, unit, width, height, kinds, tiles, agents, policies,
             menus:  [{at, seat, letter, items: [[letter, text, probability|null], ...],
                       outcome, took: steps|null, credit: number|null}, ...],
             frames: [[step, return, [[kind, x, y, facing, seat, held, label], ...],
                                     [[option, target, menu|-1], ...]], ...]}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck_audit.records import Episode
from potluck_audit.records.episode import DecisionRow


class ReplayedEpisode(NamedTuple):
    """A recorded episode and its re-execution."""

    title: str
    episode: Episode
    replay: env_pb.ReplayResponse


Credits = Mapping[tuple[str, str, int], float]
"""By episode, agent and decision."""


def replay_data(replayed: Sequence[ReplayedEpisode], credits: Credits | None = None) -> dict[str, Any]:
    return {"episodes": [_episode(r, credits or {}) for r in replayed]}


def short_policy(name: str) -> str:
    """Digests are shortened to what a person can compare."""
    return f"adapter {name[:8]}" if len(name) == 64 else name


def _episode(replayed: ReplayedEpisode, credits: Credits) -> dict[str, Any]:
    scene, episode = replayed.replay.scene, replayed.episode
    kinds = list(dict.fromkeys(scene.tiles))
    menus = _Menus(episode, credits)
    frames = [
        [frame.step, frame.team_return, [_sprite(s) for s in frame.sprites], [menus.view(a) for a in frame.agents]]
        for frame in replayed.replay.frames
    ]
    return {
        "id": episode.episode_id,
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
    """Numbers the menus of an episode and joins them with what was recorded of their decisions."""

    def __init__(self, episode: Episode, credits: Credits) -> None:
        self.packed: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._recorded = {(d.agent, d.step): d for d in episode.decisions}
        self._seats = {agent: seat for seat, agent in enumerate(episode.agents)}
        self._credits, self._episode_id = credits, episode.episode_id

    def view(self, agent: env_pb.AgentView) -> list[Any]:
        return [agent.option, agent.target, self._number(agent) if agent.items else -1]

    def _number(self, agent: env_pb.AgentView) -> int:
        key = (agent.agent, agent.decided_at)
        if key not in self._numbers:
            self._numbers[key] = len(self.packed)
            self.packed.append(self._menu(agent, self._recorded.get(key)))
        return self._numbers[key]

    def _menu(self, agent: env_pb.AgentView, decision: DecisionRow | None) -> dict[str, Any]:
        chances = decision.probabilities if decision else ()
        known = len(chances) == len(agent.items)
        ended = decision is not None and bool(decision.outcome)
        place = (self._episode_id, agent.agent, decision.decision) if decision else None
        return {
            "at": agent.decided_at,
            "seat": self._seats.get(agent.agent, -1),
            "letter": agent.letter,
            "items": [[i.letter, i.text, round(chances[n], 4) if known else None] for n, i in enumerate(agent.items)],
            "outcome": decision.outcome if decision else "",
            "took": decision.duration if decision and ended else None,
            "credit": self._credits.get(place) if place else None,
        }
