"""Real kitchens through episodes: who is paid, and that games in one process leave each other alone."""

import random

import pytest

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.local import Table

ROOM, CIRCUIT = "overcooked/cramped_room", "overcooked/counter_circuit"
FORCED, OPEN = "overcooked/forced_coordination", "overcooked/asymmetric_advantages"


@pytest.fixture(scope="module")
def table():
    return Table()


def start(episode, game, seed, horizon, **baselines):
    seats = [pb.SeatBaseline(agent=agent, baseline=baseline) for agent, baseline in baselines.items()]
    detail = pb.DETAIL_DECISIONS
    return pb.Command(
        episode_id=episode, start=pb.Start(game=game, seed=seed, horizon=horizon, baselines=seats, detail=detail)
    )


def rollout(table, game, seed, horizon=60):
    """A generator of the steps reached, then of the digest."""
    rng = random.Random(seed)
    update = table.send(start(f"{game} {seed} {rng.random()} {id(rng)}", game, seed, horizon))
    while update.HasField("menus"):
        yield update.menus.step
        choices = [pb.Choice(agent=p.agent, letter=rng.choice(p.prompt.items).letter) for p in update.menus.decisions]
        choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
        update = table.send(pb.Command(episode_id=update.episode_id, choose=choose))
    yield update.finished.recording.digest


def test_the_deliverer_is_paid_whichever_seat_it_has(table):
    """overcooked_ai#131, in 50 resets."""
    for seed in range(50):
        chef, other = (0, 1) if seed % 2 else (1, 0)
        seats = {f"agent_{chef}": pb.BASELINE_GREEDY, f"agent_{other}": pb.BASELINE_NOOP}
        done = table.send(start(f"paid {seed}", OPEN, seed, 100, **seats)).finished
        assert done.agent_returns[chef] == done.team_return >= 1
        assert done.agent_returns[other] == 0
        served = [event for step in done.progress.steps for event in step.events if event.kind == "deliver"]
        assert {event.agent for event in served} == {f"agent_{chef}"}


def test_a_layout_with_another_recipe_does_not_change_a_running_one(table):
    """Recipes are global to the engine's process: counter_circuit alone makes a cramped_room soup cost 45 steps."""
    alone = list(rollout(Table(), ROOM, 5))
    mixed, circuit = [], rollout(table, CIRCUIT, 5)
    for value in rollout(table, ROOM, 5):
        mixed.append(value)
        next(circuit, None)
    assert mixed == alone


def test_forced_coordination_needs_both(table):
    solo = {"agent_0": pb.BASELINE_GREEDY, "agent_1": pb.BASELINE_NOOP}
    assert table.send(start("solo", FORCED, 1, 400, **solo)).finished.team_return == 0
    both = {"agent_0": pb.BASELINE_GREEDY, "agent_1": pb.BASELINE_GREEDY}
    assert table.send(start("both", FORCED, 1, 400, **both)).finished.team_return > 0
