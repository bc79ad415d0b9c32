"""Nobody stands in anybody's way for long."""

import random

import pytest

from potluck_envs.overcooked import game as game_module
from potluck_envs.overcooked import provider
from potluck_envs.overcooked.game import make
from potluck_optionlib.game import NOOP, Activity, Instance
from potluck_optionlib.guards import NO_GUARDS, GuardLibrary
from potluck_optionlib.menus import feasible
from potluck_optionlib.planners import alone

LIMIT = 40
SEEDS = (0, 1)


def longest_standstill(name: str, seed: int, steps: int = 400) -> int:
    """Most steps in a row in which an agent neither changed nor chose to stand, under a uniform-menu team."""
    game, library = provider.make(name), GuardLibrary.parse(provider.guards(name))
    game.reset(seed)
    rng, still, before, longest = random.Random(seed), [0, 0], [None, None], 0
    while game.steps < steps:
        for agent in game.idle():
            game.begin(agent, rng.choice(feasible(game, agent, library)))
        for seat, now in enumerate(game.step().agents):
            pose = (now.x, now.y, now.facing, now.held)
            chosen = now.activity in (Activity.WAIT, Activity.INTERACT)
            still[seat] = 0 if chosen or pose != before[seat] else still[seat] + 1
            before[seat] = pose
        longest = max(longest, *still)
    return longest


@pytest.mark.parametrize("name", provider.names())
def test_a_uniform_team_never_stands_still_without_choosing_to(name: str) -> None:
    for seed in SEEDS:
        assert longest_standstill(name, seed) <= LIMIT


def test_the_check_catches_a_planner_that_ignores_the_partner(monkeypatch: pytest.MonkeyPatch) -> None:
    """With eyes closed, chefs block each other until their options time out."""
    blind = lambda pairs, *chefs: [alone(pairs, chef) for chef in chefs]  # noqa: E731
    assert longest_standstill("overcooked/cramped_room", 0) <= 5
    monkeypatch.setattr(game_module, "plan_pair", blind)
    assert max(longest_standstill("overcooked/cramped_room", seed) for seed in range(4)) > 30


def test_chefs_pass_each_other_in_a_corridor() -> None:
    """In `corridor` each chef wants to go where the other comes from, through a lane one cell wide."""
    game = make("corridor")
    game.reset(0)
    game.begin(0, Instance("pick_dish", "(8,0)"))
    game.begin(1, Instance("pick_onion", "(5,0)"))
    outcomes = {}
    while len(outcomes) < 2:
        for agent in game.idle():
            game.begin(agent, Instance("wait"))
        outcomes |= {e.agent: e.outcome for e in game.step().ended if e.instance.option.startswith("pick")}
        assert game.steps < 120
    assert outcomes == {0: "success", 1: "success"}


def test_a_noop_partner_is_gone_round_or_shuts_the_way() -> None:
    game = make("coordination_ring")
    game.reset(0)
    game.begin(1, NOOP)
    feasible_now = feasible(game, 0, NO_GUARDS)
    assert Instance("pick_onion", "(0,3)") in feasible_now
    for instance in feasible_now:
        game.reset(0)
        game.begin(1, NOOP)
        game.begin(0, instance)
        while 0 not in game.idle():
            step = game.step()
            assert (step.agents[1].x, step.agents[1].y) == (1, 2)
        assert step.ended[0].outcome != "timeout"


def test_a_chef_that_waits_makes_way() -> None:
    game = make("tutorial_0")  # each chef alone in a lane: nobody to make way for
    assert not game.layout.same_room
    game = make("scenario4")  # one lane wide: the inner chef can only get out past the other
    game.reset(0)
    game.begin(1, Instance("pick_onion", "(9,4)"))
    while 1 not in game.idle():
        if 0 in game.idle():
            game.begin(0, Instance("wait"))
        step = game.step()
    assert step.ended[-1].outcome == "success"


@pytest.mark.parametrize("layout", ["m_shaped_s", "you_shall_not_pass", "cramped_room", "coordination_ring"])
def test_greedy_chefs_get_soups_out_of_narrow_kitchens(layout: str) -> None:
    """A chef with a dish queues behind one that stands by at the pot instead of driving it away again and again."""
    game = make(layout)
    library = GuardLibrary.parse(provider.guards(f"overcooked/{layout}"))
    game.reset(0)
    soups, blocked = 0.0, 0
    while game.steps < 400:
        for agent in game.idle():
            scores = {i: game.view(agent, i).greedy for i in feasible(game, agent, library)}
            game.begin(agent, max(scores, key=scores.__getitem__))
        step = game.step()
        soups += step.reward
        blocked += sum(now.activity is Activity.BLOCKED for now in step.agents)
    assert soups >= 5
    assert blocked <= 160
