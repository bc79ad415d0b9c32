"""Prompts of real games, in the order in which a training round would ask for them."""

from __future__ import annotations

import random
from typing import NamedTuple

from potluck.common.v1 import common_pb2
from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.local import Table

GAMES = (
    "overcooked/forced_coordination",
    "overcooked/asymmetric_advantages",
    "meltingpot/clean_up",
    "meltingpot/commons_harvest__open",
)


class Asked(NamedTuple):
    """A decision of a seat, and the place of the item that it chose."""

    seat: int
    prompt: common_pb2.Prompt
    episode: int
    index: int


def played(game: str, episodes: int, waves: int, seed: int = 0) -> list[Asked]:
    """Decisions of some episodes played side by side with uniform choices, wave after wave."""
    table, rng, found = Table(), random.Random(seed), []
    starts = [
        pb.Command(episode_id=str(number), start=pb.Start(game=game, seed=seed + number)) for number in range(episodes)
    ]
    updates = table.send_all(starts)
    for _ in range(waves):
        commands = []
        for update in updates:
            if update.WhichOneof("outcome") != "menus":
                continue
            choices = []
            for point in update.menus.decisions:
                index = rng.randrange(len(point.prompt.items))
                seat = int(point.agent.rpartition("_")[2])
                found.append(Asked(seat, point.prompt, int(update.episode_id), index))
                choices.append(pb.Choice(agent=point.agent, letter=point.prompt.items[index].letter))
            choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
            commands.append(pb.Command(episode_id=update.episode_id, choose=choose))
        if not commands:
            break
        updates = table.send_all(commands)
    return found
