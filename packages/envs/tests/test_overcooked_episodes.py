"""Real kitchens through episodes: who is paid, and that games in one process leave each other alone."""

import json
import random
from pathlib import Path

import pytest

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.local import Table

ROOM, CIRCUIT = "overcooked/cramped_room", "overcooked/counter_circuit"
FORCED, OPEN = "overcooked/forced_coordination", "overcooked/asymmetric_advantages"


@pytest.fixture(scope="module")
def table():
    return Table()


GOLDEN = json.loads((Path(__file__).parent / "overcooked" / "data" / "golden_cramped_room.json").read_text())


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


@pytest.mark.parametrize(("horizon", "soups"), [(60, 1), (40, 1), (39, 0)])
def test_the_golden_game_by_primitives(table, horizon, soups):
    """The scripted cramped_room game under the native interface: the last reward counts if the budget ends with it."""
    scripts = {"agent_0": GOLDEN["player0"], "agent_1": GOLDEN["player1"]}
    command = start(f"golden {horizon}", ROOM, 0, horizon)
    command.start.interface = pb.INTERFACE_NATIVE
    update = table.send(command)
    while update.HasField("menus"):
        menus = update.menus
        assert [item.option for item in menus.decisions[0].prompt.items] == ["primitive"] * 6
        choices = [pb.Choice(agent=p.agent, letter="ABCDEF"[scripts[p.agent][menus.step]]) for p in menus.decisions]
        update = table.send(
            pb.Command(episode_id=update.episode_id, choose=pb.Choose(boundary=menus.boundary, choices=choices))
        )
    assert update.finished.team_return == soups
    assert list(update.finished.agent_returns) == [soups, 0]
    assert table.replay(update.finished.recording).digest == update.finished.recording.digest


def test_native_seats_beside_baselines(table):
    """A no-op partner never moves; a greedy one plays options on its own while the other chooses each step."""
    for baseline in (pb.BASELINE_NOOP, pb.BASELINE_GREEDY):
        command = start(f"beside {baseline}", OPEN, 3, 120, agent_1=baseline)
        command.start.interface, command.start.detail = pb.INTERFACE_NATIVE, pb.DETAIL_STEPS
        update, steps = table.send(command), []
        while update.HasField("menus"):
            steps += update.menus.progress.steps
            [point] = update.menus.decisions
            choices = [pb.Choice(agent=point.agent, letter="E")]
            choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
            update = table.send(pb.Command(episode_id=update.episode_id, choose=choose))
        steps += update.finished.progress.steps
        moved = {(step.agents[1].x, step.agents[1].y) for step in steps if step.agents}
        assert (len(moved) == 1) is (baseline == pb.BASELINE_NOOP)


def test_a_fork_wakes_a_noop_seat(table):
    """A seat that stood still in the original decides in the branch from its first boundary on."""
    update = table.send(start("asleep", OPEN, 3, 60, agent_1=pb.BASELINE_NOOP))
    while update.HasField("menus") and update.menus.step < 20:
        [point] = update.menus.decisions
        choose = pb.Choose(boundary=update.menus.boundary, choices=[pb.Choice(agent=point.agent, letter="A")])
        update = table.send(pb.Command(episode_id="asleep", choose=choose))
    fork = pb.Fork(episode_id="asleep", boundary=update.menus.boundary)
    branch = table.send(pb.Command(episode_id="awake", fork=fork))
    assert [point.agent for point in branch.menus.decisions] == ["agent_0", "agent_1"]
    moved = set()
    while branch.HasField("menus"):
        choices = [pb.Choice(agent=p.agent, letter=p.prompt.items[-1].letter) for p in branch.menus.decisions]
        choose = pb.Choose(boundary=branch.menus.boundary, choices=choices)
        branch = table.send(pb.Command(episode_id="awake", choose=choose))
        progress = (branch.menus if branch.HasField("menus") else branch.finished).progress
        moved |= {option.option for option in progress.options if option.agent == "agent_1"}
    assert moved - {"noop"}
