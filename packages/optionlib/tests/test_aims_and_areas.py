"""Executors that aim from a pose or enter an area, and agents that leave the map for a while."""

import pytest

from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.contracts import AWAY, Aim, Enter, Stand, option, waiting
from potluck_optionlib.errors import ContractError
from potluck_optionlib.game import NOOP, Activity, Instance, Observation, Scene
from potluck_optionlib.guards import NO_GUARDS, Channel, Guard, GuardLibrary
from potluck_optionlib.menus import one_by_one
from potluck_optionlib.planners import DRIVING, Pose
from potluck_optionlib.world import Outcome, World, cell_of

WIDTH, HEIGHT = 6, 2
LAMP = (0, 0)
MOVES = {way.primitive: way for ways in DRIVING.ways.values() for way in ways}


class Yard(World):
    """A lamp that a beam of length 3 puts out, an area at the right, and a beam that needs a step to cool down."""

    name, engine, dynamics, reward_unit = "yard/beams", "yard 1", "beams", "lamps"
    agents, horizon = 2, 60
    motion, primitives = DRIVING, (*sorted(MOVES), "stay", "fire")

    def floor(self):
        return [(x, y) for x in range(WIDTH) for y in range(HEIGHT) if (x, y) != LAMP]

    def reset(self, seed):
        self.state = {"poses": [Pose(5, 0, "E"), Pose(5, 1, "N")], "lit": True, "out": 0, "hot": 0, "away": set()}

    def pose(self, agent):
        return self.state["poses"][agent]

    def away(self, agent):
        return agent in self.state["away"]

    def step(self, primitives):
        self.state["hot"] = max(0, self.state["hot"] - 1)
        for agent, name in enumerate(primitives):
            x, y, facing = self.state["poses"][agent]
            for way in DRIVING.ways[facing]:
                if way.primitive == name and not self.away(agent):
                    there = (x + way.dx, y + way.dy)
                    cell = there if there in self.floor() else (x, y)
                    self.state["poses"][agent] = Pose(*cell, way.facing)
            if name == "fire" and not self.state["hot"]:
                self.state["hot"] = 4
                if self.state["lit"] and facing == "W" and y == 0 and x <= 3:
                    self.state |= {"lit": False, "out": self.state["out"] + 1}
        return Outcome((0.0, 0.0))

    def own(self, agent):
        return {"out": str(self.state["out"])}

    def about(self, instance):
        return {"lit": "yes" if self.state["lit"] else "no"}

    def state_bytes(self):
        return repr(sorted(self.state.items())).encode()

    def rules(self, agent):
        return "Put out the lamp."

    def observe(self, agent):
        return Observation("", "")

    def scene(self):
        return Scene(WIDTH, HEIGHT, ("floor",) * (WIDTH * HEIGHT))


def poses(world, agent, instance):
    return [Pose(x, 0, "W") for x in (9, 3, 2)] if world.state["lit"] else []


def contracts(world):
    lamp = Instance("douse", "(0,0)")
    return [
        option(
            "douse",
            instances=lambda world, agent: [lamp] if world.state["lit"] else [],
            executor=Aim("fire", poses, ready=lambda world, agent: not world.state["hot"]),
            effect=lambda change: change.before["out"] != change.after["out"],
            promise="the lamp goes out",
            failures=(AWAY,),
        ),
        option(
            "retreat",
            instances=lambda world, agent: [Instance("retreat")],
            executor=Enter(lambda world, agent, instance: [(x, y) for x in (4, 5) for y in (0, 1)]),
            effect=lambda change: change.before["there"] == "no" and change.after["there"] == "yes",
            promise="into the area",
            reads=("there",),
            failures=(AWAY,),
        ),
        option(
            "meet",
            instances=lambda world, agent: [Instance("meet", "(1,1)")],
            executor=Stand(),
            effect=lambda change: change.after["there"] == "yes",
            promise="on the spot",
            present=lambda world, agent, instance: world.state["lit"],
            failures=(AWAY,),
        ),
        waiting(2),
    ]


@pytest.fixture
def game() -> ContractGame:
    return ContractGame(Yard(), contracts(None))


def play(game: ContractGame, agent: int, instance: Instance, other: Instance = NOOP):
    """Until the agent's option ends; what it played, and how it ended."""
    game.begin(agent, instance)
    if 1 - agent in game.idle():
        game.begin(1 - agent, other)
    played = []
    while True:
        step = game.step()
        played.append(step.agents[agent].primitive)
        if 1 - agent in game.idle():
            game.begin(1 - agent, other)
        for ended in step.ended:
            if ended.agent == agent:
                return played, ended, step


def test_it_goes_to_the_first_pose_that_it_can_reach_turns_and_fires(game):
    assert game.view(0, Instance("douse", "(0,0)")).steps == 4
    played, ended, step = play(game, 0, Instance("douse", "(0,0)"))
    assert played == ["backward", "backward", "turn_left", "turn_left", "fire"]
    assert (ended.outcome, ended.own_changed, step.agents[0].activity) == ("success", True, Activity.INTERACT)


def test_it_waits_in_its_pose_until_it_is_ready(game):
    game.world.state["hot"] = 7
    played, ended, _ = play(game, 0, Instance("douse", "(0,0)"))
    assert (played[-4:], ended.outcome) == (["stay", "stay", "stay", "fire"], "success")


def test_without_a_pose_there_is_no_way_and_without_a_target_nothing_to_do(game):
    game.begin(1, Instance("wait"))
    game.begin(0, Instance("douse", "(0,0)"))
    game.world.state["lit"] = False
    assert [ended.outcome for ended in game.step().ended if ended.agent == 0] == ["explicit:TargetAbsent"]
    with pytest.raises(ValueError, match="no candidate"):
        game.begin(0, Instance("douse", "(0,0)"))


def test_an_area_is_entered_at_its_nearest_cell(game):
    play(game, 0, Instance("douse", "(0,0)"))
    assert game.features(0, Instance("retreat")) == {"there": "no"}
    played, ended, _ = play(game, 0, Instance("retreat"))
    assert (played, ended.outcome, game.world.pose(0)[:2]) == (["backward"], "success", (4, 0))


def test_entering_where_one_is_already_fails_at_once(game):
    played, ended, _ = play(game, 0, Instance("retreat"))
    assert (played, ended.outcome, ended.features) == (["stay"], "effect_fail", {"there": "yes"})


def test_guards_of_areas_hold_for_the_library_that_is_asked_with(game):
    """One library after the other; the agent stands in the area."""
    there, elsewhere = (
        GuardLibrary(guards=(Guard(option="retreat", channel=Channel.INFERRED, when={"there": told}, support=9),))
        for told in ("yes", "no")
    )
    for library in (elsewhere, there, NO_GUARDS, elsewhere):
        assert (Instance("retreat") not in game.feasible(0, library)) is (library is there)
        assert game.feasible(0, library) == one_by_one(game, 0, library)


def test_a_target_may_be_there_beyond_the_instances(game):
    _, ended, _ = play(game, 0, Instance("meet", "(1,1)"), Instance("wait"))
    assert ended.outcome == "success"
    game.begin(0, Instance("meet", "(1,1)"))
    game.world.state["lit"] = False
    assert [e.outcome for e in game.step().ended if e.agent == 0] == ["explicit:TargetAbsent"]


def test_agents_that_are_away_can_only_wait_and_are_in_nobodys_way(game):
    game.begin(1, Instance("wait"))
    game.begin(0, Instance("meet", "(1,1)"))
    game.step()
    game.world.state["away"].add(0)
    game.world.state["poses"][0] = Pose(-9, -9, "N")
    step = game.step()
    assert game.feasible(0, NO_GUARDS) == [Instance("wait")]
    assert [(e.agent, e.outcome) for e in step.ended if e.agent == 0] == [(0, f"explicit:{AWAY}")]
    assert game.explicit(0, Instance("meet", "(1,1)")) == AWAY
    assert game.explicit(0, Instance("wait")) is None
    assert [sprite.seat for sprite in game.sprites()] == [1]
    _, ended, _ = play(game, 1, Instance("meet", "(1,1)"), Instance("wait"))
    assert ended.outcome == "success"
    assert game.world.pose(1)[:2] == cell_of("(1,1)")


def test_forks_keep_who_stands_still(game):
    game.begin(0, NOOP)
    game.begin(1, Instance("meet", "(1,1)"))
    game.step()
    mark = game.snapshot()
    one = [game.step() for _ in range(3)]
    other = ContractGame(Yard(), contracts(None))
    other.restore(mark)
    assert [other.step() for _ in range(3)] == one


def test_what_an_aim_plays_must_be_a_primitive():
    wrong = option(
        "douse",
        instances=lambda world, agent: [],
        executor=Aim("shout", poses),
        effect=lambda change: True,
        promise="none",
    )
    with pytest.raises(ContractError, match="shout"):
        ContractGame(Yard(), [wrong, waiting()])
