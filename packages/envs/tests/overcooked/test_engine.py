"""The engine adapter against upstream's own step, a golden script, and upstream's traps."""

import json
import random
from pathlib import Path

import pytest

from potluck_envs.overcooked.engine import ACTIONS, Engine
from potluck_envs.overcooked.layout import INTERACT, STAY, Layout, load
from potluck_envs.overcooked.shim import OvercookedGridworld, Recipe

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden_cramped_room.json").read_text())
LAYOUTS = ["asymmetric_advantages", "forced_coordination", "coordination_ring", "counter_circuit", "mdp_test"]


def engine_of(name: str) -> Engine:
    return Engine(load(name))


def play(engine: Engine, first: list[int], second: list[int]) -> list:
    return [engine.step(joint) for joint in zip(first, second, strict=True)]


def test_golden_script() -> None:
    outcomes = play(engine_of("cramped_room"), GOLDEN["player0"], GOLDEN["player1"])
    want = {entry["step"]: entry for entry in GOLDEN["nonzero"]}
    for step, outcome in enumerate(outcomes):
        entry = want.get(step, {})
        assert list(outcome.sparse) == entry.get("sparse", [0, 0])
        assert list(outcome.shaped) == entry.get("shaped", [0, 0])
    assert [sum(o.sparse[i] for o in outcomes) for i in (0, 1)] == GOLDEN["totals"]["sparse"]
    assert [sum(o.shaped[i] for o in outcomes) for i in (0, 1)] == GOLDEN["totals"]["shaped"]


@pytest.mark.parametrize(("horizon", "soups"), [(40, 1), (39, 0)])
def test_the_last_step_counts(horizon: int, soups: int) -> None:
    outcomes = play(engine_of("cramped_room"), GOLDEN["player0"][:horizon], GOLDEN["player1"][:horizon])
    assert sum(event.reward for o in outcomes for event in o.events if event.kind == "deliver") == soups


@pytest.mark.parametrize("name", LAYOUTS)
def test_stepping_in_place_equals_get_state_transition(name: str) -> None:
    layout = load(name)
    engine, rng = Engine(layout), random.Random(1)
    reference = engine.reference()
    for _ in range(1500):
        joint = tuple(INTERACT if rng.random() < 0.4 else rng.randrange(5) for _ in range(2))
        outcome = engine.step(joint)
        reference, info = layout.mdp.get_state_transition(reference, tuple(ACTIONS[a] for a in joint))
        assert engine.reference().to_dict() == reference.to_dict()
        assert list(outcome.sparse) == info["sparse_reward_by_agent"]
        assert list(outcome.shaped) == info["shaped_reward_by_agent"]


def test_layouts_in_one_process_keep_their_recipes() -> None:
    engine = engine_of("cramped_room")
    other = Engine(Layout("counter_circuit"))
    third = Engine(Layout("long_cook_time"))
    soups = []
    for joint in zip(GOLDEN["player0"], GOLDEN["player1"], strict=True):
        other.step((INTERACT, STAY))
        third.step((STAY, STAY))
        outcome = engine.step(joint)
        soups.append((sum(outcome.sparse), outcome.events))
    assert sum(paid for paid, _ in soups) == 20
    assert load("cramped_room").times[("onion",) * 3] == 20
    circuit = load("counter_circuit")
    assert sorted((circuit.values[r], circuit.times[r]) for r in circuit.values if circuit.ordered(r)) == [
        (47.0, 29),
        (55.0, 37),
        (68.0, 22),
    ]


def test_upstream_alone_would_mix_the_recipes() -> None:
    """The trap that the test above guards against is still there."""
    first = OvercookedGridworld.from_layout_name("cramped_room")
    OvercookedGridworld.from_layout_name("counter_circuit")
    assert Recipe(["onion"] * 3).time == 45
    Recipe.configure(first.recipe_config)
    assert Recipe(["onion"] * 3).time == 20


def test_new_dynamics_never_start_a_pot() -> None:
    engine = engine_of("cramped_room")
    play(engine, [STAY] * 15, GOLDEN["player1"][:15])
    assert engine.soup((2, 0)) == (("onion",) * 3, -1)
    play(engine, [STAY] * 25, [STAY] * 25)
    assert engine.soup((2, 0)) == (("onion",) * 3, -1)


def test_a_one_onion_soup_is_cooked_delivered_and_pays_nothing() -> None:
    engine = engine_of("cramped_room")
    one_onion = GOLDEN["player1"][:5]
    events = [e for o in play(engine, [STAY] * 5, one_onion) for e in o.events]
    wait = [INTERACT] + [STAY] * 20  # agent 1 stands at the pot with empty hands
    events += [e for o in play(engine, [STAY] * 21, wait) for e in o.events]
    fetch_and_serve = [1, INTERACT, 0, 2, 0, INTERACT]
    clear = [2, STAY, STAY, STAY, STAY, STAY]
    events += [e for o in play(engine, fetch_and_serve, clear) for e in o.events]
    kinds = [event.kind for event in events]
    assert kinds[:3] == ["pickup", "pot", "cook"]
    if "plate" not in kinds:  # the way to the pot is free after one more try
        events += [e for o in play(engine, [0, INTERACT], [STAY, STAY]) for e in o.events]
    plate = next(event for event in events if event.kind == "plate")
    assert plate.parts == ("onion#1", "dish#1")
    assert plate.from_agent == 1
    served = [e for o in play(engine, [1, 2, 1, INTERACT], [STAY] * 4) for e in o.events]
    assert [(e.kind, e.object, e.reward, e.parts) for e in served] == [
        ("deliver", "soup#1", 0.0, ("onion#1", "dish#1"))
    ]
    assert engine.held(0) == "none"


def test_collisions_stay_and_turn_and_following_works() -> None:
    engine = engine_of("cramped_room")  # chefs at (1,2) and (3,1)
    play(engine, [STAY, 0], [3, STAY])  # now at (1,1) and (2,1)
    assert (engine.cell(0), engine.cell(1)) == ((1, 1), (2, 1))
    engine.step((2, 3))  # swap
    assert (engine.cell(0), engine.cell(1)) == ((1, 1), (2, 1))
    assert (engine.facing(0), engine.facing(1)) == (2, 3)
    engine.step((2, 2))  # follow into the vacated cell
    assert (engine.cell(0), engine.cell(1)) == ((2, 1), (3, 1))
    engine.step((3, STAY))
    engine.step((2, 3))  # both into one cell
    assert (engine.cell(0), engine.cell(1)) == ((1, 1), (3, 1))


def test_snapshots_are_exact_and_reusable() -> None:
    engine, rng = engine_of("counter_circuit"), random.Random(3)
    joints = [tuple(INTERACT if rng.random() < 0.4 else rng.randrange(5) for _ in range(2)) for _ in range(900)]
    for joint in joints[:500]:
        engine.step(joint)
    snapshot = engine.snapshot()
    runs = []
    for _ in range(2):
        engine.restore(snapshot)
        runs.append([(engine.step(joint), engine.state_bytes()) for joint in joints[500:]])
    assert runs[0] == runs[1]
    fresh = engine_of("counter_circuit")
    fresh.restore(snapshot)
    assert [(fresh.step(joint), fresh.state_bytes()) for joint in joints[500:]] == runs[0]


def test_state_bytes_tell_soups_apart_that_upstream_calls_equal() -> None:
    engine = engine_of("cramped_room")
    play(engine, [STAY] * 5, GOLDEN["player1"][:5])
    one, bytes_one = engine.reference().objects[(2, 0)], engine.state_bytes()
    play(engine, [STAY] * 10, GOLDEN["player1"][5:15])
    three, bytes_three = engine.reference().objects[(2, 0)], engine.state_bytes()
    assert one == three
    assert bytes_one != bytes_three


def test_a_start_state_with_objects_is_not_shared_between_games() -> None:
    first, second = engine_of("tutorial_1"), engine_of("tutorial_1")
    assert first.soup((2, 2))[0] == ("onion", "onion")
    before = second.state_bytes()
    for _ in range(50):
        first.step((3, 3))
        first.step((INTERACT, INTERACT))
    assert second.state_bytes() == before
    second.reset()
    assert second.state_bytes() == before
