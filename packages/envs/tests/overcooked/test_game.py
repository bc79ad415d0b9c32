"""Overcooked behind options: contracts, executions, events, forks."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from potluck_envs.overcooked import provider
from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_optionlib.errors import ContractError
from potluck_optionlib.game import NOOP, Activity, Instance
from potluck_optionlib.guards import Channel, Guard, GuardLibrary
from potluck_optionlib.menus import build_menu

WAIT = Instance("wait")


def guards(game: OvercookedGame) -> GuardLibrary:
    return GuardLibrary.parse(provider.guards(game.spec.name))


def choose(game: OvercookedGame, agent: int, rng: random.Random, greedy: bool) -> Instance:
    menu = build_menu(game, agent, guards(game), rng)
    if greedy:
        return menu.instances[max(range(len(menu.instances)), key=lambda i: menu.views[i].greedy)]
    return rng.choice(menu.instances)


def play(game: OvercookedGame, steps: int, seed: int = 0, greedy: bool = False) -> list:
    rng, played = random.Random(seed), []
    for _ in range(steps):
        for agent in game.idle():
            game.begin(agent, choose(game, agent, rng, greedy))
        played.append((game.step(), game.state_bytes()))
    return played


def run_option(game: OvercookedGame, agent: int, option: str, target: str = "") -> str:
    game.begin(agent, Instance(option, target))
    while True:
        for other in game.idle():
            game.begin(other, NOOP)
        for end in game.step().ended:
            if end.agent == agent:
                return end.outcome


def test_two_greedy_chefs_hand_over_and_deliver() -> None:
    game = make("forced_coordination")
    game.reset(0)
    played = play(game, 400, greedy=True)
    soups = sum(step.reward for step, _ in played)
    events = [event for step, _ in played for event in step.events]
    assert soups >= 8
    assert soups == sum(event.reward for event in events if event.kind == "deliver")
    givers = {e.object: (e.from_agent, e.agent) for e in events if e.kind == "pickup" and e.place == "counter"}
    for soup in (event for event in events if event.kind == "deliver" and event.reward):
        transfers = [givers[part] for part in soup.parts]
        assert len(transfers) == 4
        assert all(giver == 1 and taker == 0 for giver, taker in transfers)


def test_same_seed_same_play_and_forks_continue_exactly() -> None:
    game = make("cramped_room")
    game.reset(5)
    first = play(game, 150, seed=9)
    game.reset(5)
    assert play(game, 150, seed=9) == first
    snapshot = game.snapshot()
    onward = play(game, 100, seed=4)
    game.restore(snapshot)
    assert play(game, 100, seed=4) == onward
    other = make("cramped_room")
    other.restore(snapshot)
    assert play(other, 100, seed=4) == onward


def test_a_decision_of_one_agent_leaves_the_others_option_alone() -> None:
    alone, together = make("asymmetric_advantages"), make("asymmetric_advantages")
    results = []
    for game, short in ((alone, False), (together, True)):
        game.reset(0)
        game.begin(0, Instance("pick_dish", "(5,4)"))
        ends = []
        while not ends:
            for agent in game.idle():
                game.begin(agent, WAIT if short else NOOP)
            ends = [end for end in game.step().ended if end.agent == 0]
        results.append((ends[0].outcome, ends[0].start_step, ends[0].duration))
    assert results[0] == results[1]
    assert results[0][0] == "success"


def test_wait_is_offered_when_everything_is_masked() -> None:
    game = make("cramped_room")
    masks = [
        Guard(option=name, channel=Channel.INFERRED, when={"held": held}, support=5)
        for name in game.contracts
        for held in ("none", "onion", "dish", "soup")
    ]
    menu = build_menu(game, 0, GuardLibrary(guards=tuple(masks)), random.Random(0))
    assert menu.instances == (WAIT,)
    assert menu.words == ("wait",)


def test_explicit_failures() -> None:
    game = make("forced_coordination")
    game.reset(0)
    assert game.explicit(0, Instance("pick_onion", "(0,1)")) == "NoPath"
    assert game.explicit(0, Instance("place_in_pot", "(3,0)")) == "NothingHeld"
    assert game.explicit(0, Instance("drop_held", "(2,1)")) == "NothingHeld"
    assert game.explicit(1, Instance("pick_onion", "(0,1)")) is None
    assert run_option(game, 0, "pick_onion", "(0,1)") == "explicit:NoPath"


def test_taking_what_has_gone_is_target_absent() -> None:
    game = make("cramped_room")
    game.reset(0)
    assert run_option(game, 0, "pick_onion", "(0,1)") == "success"
    assert run_option(game, 0, "drop_held", "(0,2)") == "success"
    assert Instance("pick_from_counter", "(0,2)") in game.candidates(1)
    before = game.snapshot()
    assert run_option(game, 0, "pick_from_counter", "(0,2)") == "success"
    assert game.explicit(1, Instance("pick_from_counter", "(0,2)")) == "TargetAbsent"
    with pytest.raises(ValueError, match="no candidate"):
        game.begin(0, Instance("pick_from_counter", "(0,2)"))
    game.restore(before)
    assert game.explicit(1, Instance("pick_from_counter", "(0,2)")) is None


def test_a_counter_emptied_on_the_way_ends_the_option() -> None:
    game = make("cramped_room")
    game.reset(0)
    for instance in (Instance("pick_onion", "(0,1)"), Instance("drop_held", "(0,2)")):
        game.begin(0, instance)
        while 0 not in game.idle():
            if 1 in game.idle():
                game.begin(1, WAIT)
            game.step()
    game.restore(replace(game.snapshot(), executions=(None, None)))
    game.begin(1, Instance("pick_from_counter", "(0,2)"))
    ended: dict[int, str] = {}
    game.begin(0, Instance("pick_from_counter", "(0,2)"))
    for _ in range(40):
        ended |= {e.agent: e.outcome for e in game.step().ended if e.instance.option == "pick_from_counter"}
        for agent in game.idle():
            game.begin(agent, WAIT)
    assert sorted(ended.values()) == ["explicit:TargetAbsent", "success"]


@pytest.mark.parametrize(("effect", "outcome"), [("ordered", "effect_fail"), ("plain", "success")])
def test_starting_a_soup_that_nobody_ordered(effect: str, outcome: str) -> None:
    game = make("cramped_room", effect)  # type: ignore[arg-type]
    game.reset(0)
    game.begin(1, NOOP)
    assert run_option(game, 0, "pick_onion", "(0,1)") == "success"
    assert run_option(game, 0, "place_in_pot", "(2,0)") == "success"
    assert game.features(0, Instance("start_cooking", "(2,0)")) == {"held": "none", "tgt_pot_state": "onion1"}
    assert run_option(game, 0, "start_cooking", "(2,0)") == outcome


def test_a_spoilt_pot_can_be_cleared_and_the_soup_pays_nothing() -> None:
    game = make("cramped_room_tomato")
    game.reset(0)
    pot = Instance("start_cooking", "(2,0)")
    fetch = {"onion": Instance("pick_onion", "(0,1)"), "tomato": Instance("pick_tomato", "(4,1)")}
    for ingredient in ("tomato", "tomato", "onion"):
        for instance in (fetch[ingredient], Instance("place_in_pot", "(2,0)")):
            game.begin(0, instance)
            while 0 not in game.idle():
                if 1 in game.idle():
                    game.begin(1, WAIT)
                game.step()
    assert game.layout.goal(("onion", "tomato", "tomato")) is None
    assert pot in build_menu(game, 0, guards(game), random.Random(0)).instances
    game.begin(0, pot)
    while 0 not in game.idle():
        if 1 in game.idle():
            game.begin(1, WAIT)
        ended = game.step().ended
    assert ended[0].outcome == "success"


def test_one_chef_cooks_and_serves_beside_a_noop() -> None:
    game = make("cramped_room")
    game.reset(0)
    game.begin(1, NOOP)
    for _ in range(3):
        assert run_option(game, 0, "pick_onion", "(0,1)") == "success"
        assert run_option(game, 0, "place_in_pot", "(2,0)") == "success"
    assert run_option(game, 0, "place_in_pot", "(2,0)") == "explicit:NothingHeld"
    assert run_option(game, 0, "start_cooking", "(2,0)") == "success"
    assert run_option(game, 0, "pick_dish", "(1,3)") == "success"
    game.begin(0, Instance("plate_soup", "(2,0)"))
    activities = Counter()
    while 0 not in game.idle():
        activities[game.step().agents[0].activity] += 1
    assert activities[Activity.WAIT] > 5  # stood by until the soup was ready
    assert run_option(game, 0, "deliver", "(3,3)") == "success"


def test_misuse_is_refused() -> None:
    game = make("cramped_room")
    game.reset(0)
    with pytest.raises(ValueError, match="nothing to do"):
        game.step()
    with pytest.raises(ValueError, match="no candidate"):
        game.begin(0, Instance("place_in_pot", "(9,9)"))
    game.begin(0, WAIT)
    with pytest.raises(ValueError, match="under way"):
        game.begin(0, WAIT)


def test_what_agents_read() -> None:
    game = make("forced_coordination")
    game.reset(0)
    assert game.observe(0).text == "hold none\npot1 empty\npot2 empty\nshared onion 0 dish 0\nmate hold none"
    assert game.observe(0).state_key == "held=none pot=filling shared=none"
    assert "hand things over" in game.rules(0)
    keys = {game.view(0, i).action_key for i in game.candidates(0)}
    assert {"drop_held/shared/none", "drop_held/private/none", "place_in_pot/filling", "wait"} <= keys
    view = game.view(1, Instance("pick_onion", "(0,1)"))
    assert (view.stem, view.steps, view.text) == ("onion", 2, "take an onion from (0,1)")


def test_contracts_digest_follows_the_data() -> None:
    assert make("cramped_room").contracts_digest == make("forced_coordination").contracts_digest
    assert make("cramped_room").contracts_digest != make("cramped_room", "plain").contracts_digest
    assert make("cramped_room").contracts_digest != make("cramped_room_tomato").contracts_digest


@pytest.mark.parametrize(
    "reads", [("held", "nonsense"), ("tgt_item",), ("tgt_pot_state", "held"), ("held", "tgt_item")]
)
def test_a_read_set_that_the_kitchen_does_not_tell_is_refused(reads):
    """Never another feature's value under the name that was asked for."""
    shipped = make("cramped_room").contracts
    contracts = tuple(replace(c, reads=reads) if c.name == "place_in_pot" else c for c in shipped.values())
    game = make("cramped_room", contracts=contracts)
    instance = next(i for i in game.candidates(0) if i.option == "place_in_pot")
    with pytest.raises(ContractError, match="Read held alone, or held, then tgt_pot_state"):
        game.features(0, instance)
