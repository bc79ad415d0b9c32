"""Quick burn-in against the game that it stands in for, and against upstream's own step, state by state."""

import dataclasses
import random
from collections.abc import Sequence

import pytest

from potluck_envs.overcooked.apart import Apart
from potluck_envs.overcooked.burnin import KitchenBurnin
from potluck_envs.overcooked.engine import ACTIONS, Engine
from potluck_envs.overcooked.game import PRIMITIVES, OvercookedGame, make
from potluck_envs.overcooked.layout import load
from potluck_envs.overcooked.rounds import Round
from potluck_envs.overcooked.together import Together
from potluck_optionlib.burnin import BurninPlan, QuickBurnin, Row, one_by_one, run
from potluck_optionlib.game import NOOP

LAYOUTS = [
    "asymmetric_advantages",
    "forced_coordination",
    "cramped_room",
    "coordination_ring",
    "counter_circuit_o_1order",
    "asymmetric_advantages_tomato",
    "inverse_marshmallow_experiment",
    "long_cook_time",
    "forced_coordination/probe",
]
SEEDS = [3, 4]
ACTORS = [0, 1, None]


class Recorded:
    """A game under burn-in that writes down its states and joint actions."""

    def __init__(self, game: OvercookedGame) -> None:
        self.game = game
        self.states: list[bytes] = []
        self.joints: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.game, name)

    def step(self) -> object:
        step = self.game.step()
        self.states.append(self.game.state_bytes())
        self.joints.append(tuple(PRIMITIVES.index(agent.primitive) for agent in step.agents))
        return step


def quick(name: str) -> KitchenBurnin:
    game = make(name)
    return KitchenBurnin(game.layout, tuple(game.contracts.values()))


def upstream(name: str, joints: Sequence[tuple[int, ...]]) -> list[bytes]:
    """States by `get_state_transition`, in the same canonical bytes."""
    layout = load(name)
    engine, states = Engine(layout), []
    for joint in joints:
        engine.state, _ = layout.mdp.get_state_transition(engine.state, tuple(ACTIONS[a] for a in joint))
        states.append(engine.state_bytes())
    return states


@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_and_every_state_are_those_of_the_game_and_of_the_engine(name: str) -> None:
    kitchen = quick(name)
    for seed in SEEDS:
        for actor in ACTORS:
            game, states = Recorded(make(name)), []
            rows = one_by_one(game, seed, actor, 300)
            assert kitchen.rows(seed, actor, 300, states.append) == rows
            assert kitchen.rows(seed, actor, 300) == rows
            assert len(states) == 300
            assert states == game.states
            assert states == upstream(name, game.joints)


@pytest.mark.parametrize("name", ["asymmetric_advantages", "cramped_room"])
def test_the_outcomes_that_play_hinges_on_all_occur(name: str) -> None:
    rows = [row for seed in range(12) for actor in ACTORS for row in quick(name).rows(seed, actor, 400)]
    options = {row.instance.option for row in rows}
    assert options == set(make(name).contracts)
    wins = {row.instance.option for row in rows if row.outcome == "success"}
    assert {"pick_onion", "place_in_pot", "pick_dish", "drop_held", "pick_from_counter", "wait"} <= wins
    outcomes = {row.outcome for row in rows}
    assert {"success", "effect_fail", "explicit:NothingHeld", "explicit:NoPath"} <= outcomes
    assert ("explicit:TargetAbsent" in outcomes) or name == "asymmetric_advantages"
    told = {(row.own_changed, row.changed) for row in rows}
    assert told == {(None, None), (False, False), (False, True), (True, True)}


def test_horizons_cut_where_the_game_cuts() -> None:
    kitchen, game = quick("asymmetric_advantages"), make("asymmetric_advantages")
    for horizon in (*range(1, 30), 399):
        for actor in ACTORS:
            assert kitchen.rows(5, actor, horizon) == one_by_one(game, 5, actor, horizon)


@pytest.mark.parametrize("name", ["asymmetric_advantages", "cramped_room", "coordination_ring"])
@pytest.mark.parametrize("timeout", [1, 3])
def test_options_time_out_where_the_game_lets_them(name: str, timeout: int) -> None:
    hasty = tuple(dataclasses.replace(contract, timeout=timeout) for contract in make(name).contracts.values())
    kitchen, game = KitchenBurnin(load(name), hasty), make(name, contracts=hasty)
    for actor in ACTORS:
        rows = kitchen.rows(7, actor, 400)
        assert rows == one_by_one(game, 7, actor, 400)
        assert "timeout" in {row.outcome for row in rows}


@pytest.mark.parametrize("name", ["asymmetric_advantages", "cramped_room"])
def test_a_dish_stands_by_at_a_cooking_pot_until_time_is_up(name: str) -> None:
    hasty = tuple(
        dataclasses.replace(contract, timeout=9) if contract.name == "plate_soup" else contract
        for contract in make(name).contracts.values()
    )
    kitchen, game = KitchenBurnin(load(name), hasty), make(name, contracts=hasty)
    ends = set()
    for seed in range(16):
        rows = kitchen.rows(seed, None, 400)
        assert rows == one_by_one(game, seed, None, 400)
        ends |= {row.outcome for row in rows if row.instance.option == "plate_soup"}
    assert {"success", "timeout"} <= ends


def test_a_game_is_played_quickly_only_under_its_own_contracts() -> None:
    own = make("cramped_room")
    assert isinstance(own, QuickBurnin)
    assert own.burnin_rows(1, None, 50) == one_by_one(make("cramped_room"), 1, None, 50)
    foreign = make("cramped_room", contracts=tuple(own.contracts.values()))
    assert foreign.burnin_rows(1, None, 50) is None
    plan = BurninPlan(2, 2, 0, 50)
    assert run(own, plan) == run(foreign, plan)


def test_the_plain_promise_is_judged_as_the_game_judges_it() -> None:
    plain, ordered = make("cramped_room", "plain"), make("cramped_room")
    wins = {}
    for game in (plain, ordered):
        rows = [row for seed in range(10) for row in game.burnin_rows(seed, 0, 400) or ()]
        assert rows == [row for seed in range(10) for row in one_by_one(game, seed, 0, 400)]
        wins[game] = sum(row.instance.option == "start_cooking" and row.outcome == "success" for row in rows)
    assert wins[plain] > wins[ordered]


def test_playing_quickly_leaves_a_running_game_alone() -> None:
    game, other = make("asymmetric_advantages"), make("long_cook_time")
    rng = random.Random(0)
    game.reset(1)
    for _ in range(60):
        for agent in game.idle():
            game.begin(agent, rng.choice(game.candidates(agent)))
        game.step()
    before = game.state_bytes()
    game.burnin_rows(9, None, 100)
    other.burnin_rows(9, None, 100)
    assert (game.state_bytes(), game.steps) == (before, 60)
    rows = game.burnin_rows(9, 0, 200)
    assert rows == one_by_one(make("asymmetric_advantages"), 9, 0, 200)


@pytest.mark.parametrize(
    ("kind", "part", "broken"),
    [
        (Round, "_boil", lambda self, steps: None),
        (Round, "_absent", lambda self, choice: False),
        (Round, "_explicit", lambda self, seat, choice: ""),
        (Round, "_item", lambda self, choice: "none"),
        (Apart, "_look_round", lambda self: None),
        (Together, "_lot", lambda self, seat: seat),
    ],
)
def test_the_comparison_notices_each_broken_part(
    kind: type[Round], part: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(name: str) -> bool:
        kitchen, game = quick(name), make(name)
        return all(kitchen.rows(s, None, 400) == one_by_one(game, s, None, 400) for s in range(4))

    layouts = ("forced_coordination", "cramped_room")
    assert all(same(name) for name in layouts)
    monkeypatch.setattr(kind, part, broken)
    assert not all(same(name) for name in layouts)


def test_a_noop_seat_never_ends() -> None:
    rows: list[Row] = quick("cramped_room").rows(2, 1, 400)
    assert {row.agent for row in rows} == {1}
    assert NOOP.option not in {row.instance.option for row in rows}
