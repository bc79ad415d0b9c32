"""The quick way to menus finds what asking one by one finds, and the state's bytes are its JSON."""

import json
import random
from typing import Any

import pytest

from potluck_envs.overcooked import provider
from potluck_envs.overcooked.game import OvercookedGame
from potluck_optionlib.game import NOOP
from potluck_optionlib.guards import NO_GUARDS, GuardLibrary
from potluck_optionlib.menus import feasible, one_by_one


def as_json(game: OvercookedGame) -> bytes:
    """The state's bytes by the general encoder."""

    def plain(item: Any) -> Any:
        if item is None:
            return None
        soup = item.name == "soup"
        parts = [part.name for part in item._ingredients] if soup else []
        return item.name, item.position, item._cooking_tick if soup else -1, parts

    state = game._engine.state
    players = [(p.position, p.orientation, plain(p.held_object)) for p in state.players]
    objects = sorted((plain(item) for item in state.objects.values()), key=lambda item: item[1])
    return json.dumps((state.timestep, players, objects), separators=(",", ":")).encode()


@pytest.mark.parametrize("layout", ["forced_coordination", "cramped_room", "asymmetric_advantages_tomato"])
@pytest.mark.parametrize("alone", [False, True])
def test_same_menus_and_bytes_by_the_long_way(layout: str, alone: bool) -> None:
    game = provider.make(f"overcooked/{layout}")
    assert isinstance(game, OvercookedGame)
    libraries = (GuardLibrary.parse(provider.guards(f"overcooked/{layout}")), NO_GUARDS)
    rng = random.Random(3)
    game.reset(3)
    while game.steps < 250:
        for agent in game.idle():
            for guards in libraries:
                assert feasible(game, agent, guards) == one_by_one(game, agent, guards)
            stands = alone and agent == 1
            game.begin(agent, NOOP if stands else rng.choice(feasible(game, agent, libraries[0])))
        game.step()
        assert game.state_bytes() == as_json(game)
