"""Games out of worlds and contracts: executions, failures, effects, forks, and what is wrong with a bad one."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.contracts import Act, Idle, Reach, Stand, contracts_digest, option, waiting
from potluck_optionlib.errors import ContractError, GuardFormatError
from potluck_optionlib.game import NOOP, Activity, Event, Instance, Observation, Scene
from potluck_optionlib.guards import NO_GUARDS, Channel, Guard, GuardLibrary
from potluck_optionlib.menus import QuickGame, feasible, one_by_one
from potluck_optionlib.planners import COMPASS, Pose
from potluck_optionlib.planners.motion import STEPS
from potluck_optionlib.provider import Games
from potluck_optionlib.world import Look, Outcome, World, cell_of, text_of

WAIT = Instance("wait")


@dataclass
class State:
    poses: list[Pose]
    held: list[str]
    boxes: set[tuple[int, int]]
    shut: bool = False
    rng: random.Random = field(default_factory=lambda: random.Random(0))


class Hall(World):
    """A corridor with a side room; boxes lie on a shelf along the top and are put into the bin at the right end."""

    name, engine, dynamics, reward_unit = "hall/boxes", "hall 1", "plain", "boxes"
    horizon = 60
    motion, primitives = COMPASS, ("N", "S", "E", "W", "stay", "use")

    def __init__(self, agents: int = 2) -> None:
        self.agents = agents

    def floor(self):
        return [(x, 1) for x in range(7)] + [(3, 2), (4, 2)]

    def reset(self, seed):
        rng = random.Random(seed)
        poses = [Pose(x, 1, "S") for x in range(self.agents)]
        self.state = State(poses, [""] * self.agents, {(x, 0) for x in (0, 2, 4)}, rng=rng)

    def reseed(self, seed):
        self.state.rng.seed(seed)

    def step(self, primitives):
        events = []
        for agent, name in enumerate(primitives):
            pose = self.state.poses[agent]
            if name == "use":
                dx, dy = STEPS[pose.facing]
                events += self.use(agent, (pose.x + dx, pose.y + dy))
            elif name != "stay":
                dx, dy = STEPS[name]
                ahead = (pose.x + dx, pose.y + dy)
                taken = {other[:2] for i, other in enumerate(self.state.poses) if i != agent}
                free = ahead in self.floor() and ahead not in taken and ahead not in self.closed()
                self.state.poses[agent] = Pose(*(ahead if free else pose[:2]), name)
        rewards = [sum(e.reward for e in events if e.agent == a) for a in range(self.agents)]
        return Outcome(tuple(rewards), tuple(events))

    def use(self, agent, cell):
        if cell in self.state.boxes and not self.state.held[agent]:
            self.state.boxes.remove(cell)
            self.state.held[agent] = "box"
            return [Event("pickup", agent, "box", "shelf", *cell)]
        if cell == (7, 1) and self.state.held[agent]:
            self.state.held[agent] = ""
            return [Event("deliver", agent, "box", "bin", *cell, reward=1.0)]
        return []

    def pose(self, agent):
        return self.state.poses[agent]

    def held(self, agent):
        return self.state.held[agent]

    def closed(self):
        return [(5, 1)] if self.state.shut else []

    def about(self, instance):
        return {"item": "box" if cell_of(instance.target) in self.state.boxes else "none"}

    def state_bytes(self):
        return repr((self.state.poses, self.state.held, sorted(self.state.boxes), self.state.shut)).encode()

    def rules(self, agent):
        return "Boxes go into the bin."

    def observe(self, agent):
        return Observation(f"hold {self.held(agent) or 'none'}", self.held(agent))

    def look(self, agent, instance):
        return Look(f"{instance.option} {instance.target}", greedy=1.0)

    def scene(self):
        return Scene(1, 1, ("floor",))


def took(change) -> bool:
    return change.before["held"] == "none" and change.after["held"] == "box"


def contracts(world, **changes):
    def lying(hall, agent):
        return [Instance("take", text_of(cell)) for cell in sorted(hall.state.boxes)]

    def cells(hall, agent):
        return [Instance("stand", text_of(cell)) for cell in sorted(hall.floor())]

    found = {
        "take": option(
            "take", instances=lying, executor=Reach("use"), effect=took, promise="takes it", reads=("held", "item")
        ),
        "bin": option(
            "bin",
            instances=lambda hall, agent: [Instance("bin", "(7,1)")],
            executor=Reach("use", carrying=True),
            effect=lambda change: change.before["held"] == "box" and change.after["held"] == "none",
            promise="hand: box -> none",
        ),
        "stand": option(
            "stand",
            instances=cells,
            executor=Stand(),
            effect=lambda change: change.before["there"] == "no" and change.after["there"] == "yes",
            promise="gets there",
            reads=("there",),
        ),
        "wait": waiting(),
    }
    return list({**found, **changes}.values())


def game(agents: int = 2, **changes) -> ContractGame:
    hall = Hall(agents)
    return ContractGame(hall, contracts(hall, **changes))


def run(hall: ContractGame, *chosen: Instance, most: int = 60):
    """Begins an option per agent, the others hold; returns the first end."""
    for agent in hall.idle():
        hall.begin(agent, chosen[agent] if agent < len(chosen) else NOOP)
    for _ in range(most):
        step = hall.step()
        if step.ended:
            return step.ended[0]
    raise AssertionError("nothing ended")


def test_an_option_is_planned_played_and_judged_on_the_change() -> None:
    hall = game()
    end = run(hall, Instance("take", "(0,0)"))
    assert (end.outcome, end.duration, end.features) == ("success", 2, {"held": "none", "item": "box"})
    assert (end.changed, end.own_changed) == (True, True)
    again = run(hall, Instance("take", "(2,0)"))
    assert (again.outcome, again.changed, again.own_changed) == ("explicit:NoPath", None, None)


def test_an_effect_that_does_not_happen_fails_and_says_that_nothing_changed() -> None:
    hall = game(1)
    run(hall, Instance("take", "(0,0)"))
    end = run(hall, Instance("take", "(2,0)"))
    assert (end.outcome, end.changed, end.own_changed) == ("effect_fail", False, False)
    stood = run(hall, Instance("stand", "(2,1)"))
    assert (stood.outcome, stood.duration) == ("effect_fail", 1)
    assert run(hall, Instance("stand", "(3,2)")).outcome == "success"


def test_executors_fail_explicitly_for_their_own_reasons_only() -> None:
    hall = game(2)
    assert hall.explicit(0, Instance("bin", "(7,1)")) == "NothingHeld"
    assert run(hall, Instance("bin", "(7,1)"), WAIT).outcome == "explicit:NothingHeld"
    hall = game(2)
    hall.begin(0, Instance("take", "(4,0)"))
    hall.begin(1, WAIT)
    hall.step()
    hall.world.state.boxes.remove((4, 0))
    assert run(hall).outcome == "explicit:TargetAbsent"
    hall.world.state.shut = True
    assert hall.explicit(0, Instance("stand", "(6,1)")) == "NoPath"
    assert hall.view(0, Instance("stand", "(6,1)")).steps == -1


def test_a_door_that_shuts_on_the_way_ends_the_option() -> None:
    hall = game(2)
    hall.begin(1, Instance("stand", "(6,1)"))
    hall.begin(0, NOOP)
    hall.step()
    hall.world.state.shut = True
    assert hall.step().ended[0].outcome == "explicit:NoPath"


def test_agents_make_way_and_a_wait_lasts_its_steps() -> None:
    hall = game(2)
    hall.begin(0, Instance("stand", "(2,1)"))
    hall.begin(1, WAIT)
    steps = [hall.step() for _ in range(3)]
    ends = [end for step in steps for end in step.ended]
    assert {(end.agent, end.outcome) for end in ends} >= {(1, "success")}
    assert hall.world.pose(1)[:2] != (1, 1)
    assert steps[0].agents[1].activity is Activity.MOVE


def test_a_partner_that_never_moves_blocks_and_one_that_moves_does_not() -> None:
    hall = game(2)
    hall.begin(1, NOOP)
    assert hall.explicit(0, Instance("stand", "(6,1)")) == "NoPath"
    hall = game(2)
    assert hall.explicit(0, Instance("stand", "(6,1)")) is None


def test_time_outs_and_primitives() -> None:
    far = [Instance("stand", "(6,1)")]
    stand = option("stand", instances=lambda h, a: far, executor=Stand(), effect=took, promise="-", timeout=2)
    hall = game(1, stand=stand)
    assert run(hall, Instance("stand", "(6,1)")).outcome == "timeout"
    end = run(hall, Instance("primitive", "E"))
    assert (end.outcome, end.duration) == ("success", 1)
    assert [i.target for i in hall.primitives(0)] == ["N", "S", "E", "W", "stay", "use"]


def test_an_executor_of_the_author_s_own_says_each_primitive() -> None:
    def north_then_use(hall, agent, instance):
        return Act("use", last=True) if hall.pose(agent).facing == "N" else Act("N")

    hall = game(1, take=option(
        "take", instances=lambda h, a: [Instance("take", "(0,0)")], executor=north_then_use, effect=took, promise="-"
    ))  # fmt: skip
    assert run(hall, Instance("take", "(0,0)")).outcome == "success"


@pytest.mark.parametrize("where", ["executor", "effect"])
def test_an_option_that_raises_ends_by_the_exception_s_name_and_the_game_goes_on(where: str) -> None:
    def raises(*args):
        raise ZeroDivisionError

    parts = {"executor": Reach("use"), "effect": took, where: raises}
    hall = game(1, take=option("take", instances=lambda h, a: [Instance("take", "(0,0)")], promise="-", **parts))
    assert run(hall, Instance("take", "(0,0)")).outcome == "raised:ZeroDivisionError"
    assert run(hall, WAIT).outcome == "success"


def test_snapshots_are_exact_in_the_middle_of_a_jam() -> None:
    for seed in range(12):
        hall, rng = game(3), random.Random(seed)
        hall.reset(seed)
        play(hall, rng, 10 + seed)
        snapshot, state = hall.snapshot(), rng.getstate()
        first = play(hall, rng, 40)
        for _ in range(2):
            hall.restore(snapshot)
            rng.setstate(state)
            assert play(hall, rng, 40) == first


def play(hall: ContractGame, rng: random.Random, steps: int):
    trace = []
    for _ in range(steps):
        for agent in hall.idle():
            hall.begin(agent, rng.choice(feasible(hall, agent, NO_GUARDS)))
        trace.append((hall.step(), hall.state_bytes()))
    return trace


@pytest.mark.parametrize("agents", [1, 2, 3])
def test_random_play_hardly_ever_times_out(agents: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(5):
        hall, rng = game(agents), random.Random(seed)
        hall.reset(seed)
        outcomes.update(end.outcome for step, _ in play(hall, rng, 150) for end in step.ended)
    assert outcomes["success"] > 100
    assert outcomes["timeout"] <= 0.02 * outcomes.total()


def test_the_quick_menu_is_the_one_by_one_menu() -> None:
    hall, rng = game(3), random.Random(1)
    guard = Guard(option="stand", channel=Channel.INFERRED, when={"there": "yes"}, support=9)
    library = GuardLibrary(guards=(guard,))
    assert isinstance(hall, QuickGame)
    for _ in range(150):
        for agent in hall.idle():
            quick = hall.feasible(agent, library)
            assert quick == one_by_one(hall, agent, library)
            assert hall.entries(agent, library) == [(instance, hall.view(agent, instance)) for instance in quick]
            hall.begin(agent, rng.choice(quick))
        hall.step()


def test_misuse_is_refused() -> None:
    hall = game(2)
    with pytest.raises(ValueError, match="no candidate"):
        hall.begin(0, Instance("take", "(1,0)"))
    with pytest.raises(ValueError, match="nothing to do"):
        hall.step()
    hall.begin(0, WAIT)
    with pytest.raises(ValueError, match="under way"):
        hall.begin(0, WAIT)
    with pytest.raises(ValueError, match="snapshot"):
        hall.restore(None)
    hall.begin(1, NOOP)
    hall.begin(1, WAIT)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"wait": None}, "no option `wait`"),
        ({"take": Reach("fly")}, "plays 'fly'"),
        ({"take": None}, "no executor"),
    ],
)
def test_bad_contracts_are_named(fault, told: str) -> None:
    hall = Hall()
    built = {contract.name: contract for contract in contracts(hall)}
    for name, executor in fault.items():
        if name == "wait":
            del built["wait"]
        else:
            built[name] = replace(built[name], executor=executor)
    with pytest.raises(ContractError, match=told):
        ContractGame(hall, list(built.values()))
    with pytest.raises(ContractError, match="one name"):
        ContractGame(hall, [*contracts(hall), waiting()])


def test_a_read_that_the_world_does_not_tell_is_named() -> None:
    hall = game(1, wait=option(
        "wait", instances=lambda h, a: [WAIT], executor=Idle(), effect=took, promise="-", reads=("mood",)
    ))  # fmt: skip
    with pytest.raises(ContractError, match=r"reads 'mood'.*it tells held"):
        hall.features(0, WAIT)


def test_executors_are_part_of_the_digest_and_contracts_without_one_keep_theirs() -> None:
    one = waiting()
    digests = {contracts_digest([replace(one, executor=executor)]) for executor in (Idle(3), Idle(4), Stand(), None)}
    assert len(digests) == 4
    assert "executor" not in replace(one, executor=None).data()


def test_a_provider_of_worlds_takes_other_contracts(tmp_path) -> None:
    games = Games({"hall/boxes": Hall}, contracts, tmp_path)
    assert games.names() == ["hall/boxes"]
    assert games.guards("hall/boxes") == ""
    (tmp_path / "boxes.json").write_text("{}")
    assert games.guards("hall/boxes") == "{}"
    (tmp_path / "boxes.json").write_text("\n")
    with pytest.raises(GuardFormatError, match=r"boxes\.json is empty.*Mine it again"):
        games.guards("hall/boxes")
    assert games.make("hall/boxes").spec.options == ("take", "bin", "stand", "wait")
    assert games.with_contracts("hall/boxes", lambda hall: [waiting()]).spec.options == ("wait",)
    with pytest.raises(KeyError, match="known: hall/boxes"):
        games.make("hall/none")
