"""Overcooked as a `SymbolicGame`: the real engine behind options, two chefs planned together.

A step asks each chef's option what it wants (go, act, hold), lets the planners settle who moves how, plays the joint
action on the engine and ends options whose last primitive was played. The game itself has no randomness but the
tie-break between options that start in the same step, which is a function of the seed, so a snapshot is the engine's
state plus the executions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from potluck_envs.overcooked import greedy, words
from potluck_envs.overcooked.admission import Admission
from potluck_envs.overcooked.burnin import KitchenBurnin
from potluck_envs.overcooked.kitchen import Kitchen
from potluck_envs.overcooked.layout import (
    ACTIONS_OF_WAYS,
    COUNTER,
    FACINGS,
    INTERACT,
    POT,
    STAY,
    TILES,
    Layout,
    Target,
    load,
)
from potluck_envs.overcooked.options import (
    DROP,
    TAKE,
    TARGET_ABSENT,
    WAIT_STEPS,
    StartCookingEffect,
    World,
    library,
)
from potluck_optionlib.burnin import Row
from potluck_optionlib.contracts import Change, Contract, contracts_digest
from potluck_optionlib.executions import Execution, Facts, judge
from potluck_optionlib.game import (
    NOOP,
    Activity,
    AgentStep,
    Ended,
    GameSpec,
    Instance,
    ItemView,
    Observation,
    Scene,
    Sprite,
    Step,
)
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import one_by_one
from potluck_optionlib.option_game import PRIMITIVE, OptionGame
from potluck_optionlib.planners import FAR, Partner, Wish, lot, plan_pair

ENGINE = "overcooked-ai 1.1.0"
DYNAMICS = "start_cooking"
PRIMITIVES = (*FACINGS, "stay", "interact")
_NATIVE = {Instance(PRIMITIVE, name): action for action, name in enumerate(PRIMITIVES)}
_ON_COUNTERS = (DROP, TAKE)
_UNPLANNED = (NOOP.option, PRIMITIVE)
"""What no planner moves."""

Contracts = tuple[Contract[World], ...]


class _Manual:
    """What all games on a layout under the same contracts say alike: contracts and texts."""

    def __init__(self, layout: Layout, contracts: Contracts) -> None:
        self.contracts: Mapping[str, Contract[World]] = {contract.name: contract for contract in contracts}
        self.digest = contracts_digest(self.contracts.values())
        self.admission = Admission(self.contracts)
        self.rules = tuple(words.rules(layout, seat) for seat in range(len(layout.starts)))
        self.texts: dict[tuple[str, str, str, str], tuple[str, str]] = {}
        wait = self.contracts["wait"]
        text = words.item_text(wait.name, "", "", "", False)
        self.wait = ItemView(wait.stem, text, 0, wait.name, greedy.IDLE)


_manual = lru_cache(maxsize=64)(_Manual)


@lru_cache(maxsize=64)
def _shipped(layout: Layout, effect: StartCookingEffect) -> Contracts:
    return tuple(library(layout, effect).values())


class OvercookedGame(OptionGame):
    """One running kitchen behind options.

    `contracts` replaces the shipped option library (`options.library`): any contracts over the same world whose
    instances name the layout's targets. `wait` must be among them.
    """

    def __init__(
        self,
        layout: Layout,
        start_cooking_effect: StartCookingEffect = "ordered",
        contracts: Contracts | None = None,
    ) -> None:
        self.layout = layout
        self._own = contracts is None
        self._manual = _manual(layout, _shipped(layout, start_cooking_effect) if contracts is None else contracts)
        self._kitchen = Kitchen(layout)
        self._engine = self._kitchen.engine
        named = self._manual.contracts
        name, seats = f"overcooked/{layout.name}", len(self._kitchen.seats)
        spec = GameSpec(name, seats, 400, ENGINE, DYNAMICS, "soups", tuple(named))
        super().__init__(self._engine, spec, named, PRIMITIVES, self._manual.digest)
        self._texts = self._manual.texts
        self._burnin: KitchenBurnin | None = None
        self.reset(0)
        self._known = tuple(
            frozenset(
                (*self.candidates(seat), *(i for c in self._kitchen.ground.counters[seat] for i in (c.drop, c.take)))
            )
            for seat in self._seats
        )

    def under(self, contracts: Sequence[Contract[World]]) -> OvercookedGame:
        """A fresh game under other contracts."""
        return OvercookedGame(self.layout, contracts=tuple(contracts))

    def reset(self, seed: int) -> None:
        self._begin_anew(seed)
        self._engine.reset()
        self._refresh()

    def candidates(self, agent: int) -> Sequence[Instance]:
        found: list[Instance] = []
        for contract in self.contracts.values():
            found += contract.instances(self._kitchen, agent)
        return found

    def feasible(self, agent: int, guards: GuardLibrary) -> list[Instance]:
        if not self._own:
            return one_by_one(self, agent, guards)
        return self._manual.admission.now(self._kitchen, agent, guards)

    def burnin_rows(self, seed: int, actor: int | None, horizon: int) -> Sequence[Row] | None:
        if not self._own:
            return None
        if self._burnin is None:
            self._burnin = KitchenBurnin(self.layout, tuple(self.contracts.values()))
        return self._burnin.rows(seed, actor, horizon)

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        return self._kitchen.features(agent, instance, self.contracts[instance.option].reads)

    def facts(self, agent: int, instance: Instance) -> Facts:
        """What effect predicates compare, by whose it is."""
        facts = self._kitchen.facts(agent, instance)
        return Facts({"held": facts["held"]}, {name: value for name, value in facts.items() if name != "held"})

    def explicit(self, agent: int, instance: Instance) -> str | None:
        return self.contracts[instance.option].explicit(self._kitchen, agent, instance)

    def begin(self, agent: int, instance: Instance) -> None:
        super().begin(agent, instance)
        if instance.option in _UNPLANNED:
            self._refresh()

    def step(self) -> Step:
        running = [self._watch(execution) for execution in self._underway()]
        chefs = [self._chef(seat, execution) for seat, execution in enumerate(running)]
        ways = plan_pair(self.layout.pairs, *chefs)
        joint = [
            _NATIVE.get(execution.instance, ACTIONS_OF_WAYS[way]) for execution, way in zip(running, ways, strict=True)
        ]
        changes = [
            self._kitchen.facts(seat, running[seat].instance) if action == INTERACT and chef.target >= 0 else None
            for seat, (chef, action) in enumerate(zip(chefs, joint, strict=True))
        ]
        outcome = self._engine.step(joint)
        self._steps += 1
        self._refresh()
        ended = []
        for seat, execution in enumerate(running):
            before = changes[seat]
            change = None if before is None else Change(before, self._kitchen.facts(seat, execution.instance))
            end = self._end(seat, execution, change)
            self._running[seat] = None if end else self._carry_on(seat, execution, chefs[seat])
            ended += [end] if end else []
        rewards = tuple([1.0 if sparse > 0 else 0.0 for sparse in outcome.sparse])
        agents = tuple([self._agent_step(seat, running[seat], chefs[seat], joint[seat]) for seat in self._seats])
        return Step(sum(rewards), rewards, agents, outcome.events, tuple(ended))

    def restore(self, snapshot: object) -> None:
        super().restore(snapshot)
        self._refresh()

    def state_bytes(self) -> bytes:
        return self._engine.state_bytes()

    def rules(self, agent: int) -> str:
        return self._manual.rules[agent]

    def observe(self, agent: int) -> Observation:
        see = self._kitchen.outlook(agent)
        return Observation(words.observation(self.layout, see), words.state_key(see))

    def view(self, agent: int, instance: Instance) -> ItemView:
        option = instance.option
        if not instance.target:
            return self._manual.wait
        target = self.layout.by_text[instance.target]
        see = self._kitchen.outlook(agent)
        item = self._engine.item(target.cell) if target.kind == COUNTER else "none"
        seen = words.STAGES[self._kitchen.pot(target).stage] if target.kind == POT else item
        key = (option, instance.target, see.held, seen)
        spelt = self._texts.get(key)
        if spelt is None:
            spelt = self._texts[key] = self._spell(option, target, see.held, seen)
        text, action_key = spelt
        distance = self.layout.alone[target.index][self._kitchen.poses[agent]]
        value = greedy.score(see, option, target, item) - greedy.STEP_COST * distance
        return ItemView(self.contracts[option].stem, text, distance if distance < FAR else -1, action_key, value)

    def scene(self) -> Scene:
        tiles = tuple(TILES[tile] for row in self.layout.rows for tile in row)
        return Scene(self.layout.width, self.layout.height, tiles)

    def sprites(self) -> Sequence[Sprite]:
        sprites = []
        for target in self._kitchen.ground.pots:
            pot = self._kitchen.pot(target)
            label = {"empty": "", "idle": f"{len(pot.contents)}/3", "cooking": str(pot.left)}.get(pot.phase, "ready")
            sprites.append(Sprite("pot", target.x, target.y, held="soup" if pot.contents else "", label=label))
        for target in self.layout.of_kind(COUNTER):
            item = self._engine.item(target.cell)
            if item != "none":
                sprites.append(Sprite(item, target.x, target.y))
        for seat in self._seats:
            x, y = self._engine.cell(seat)
            held = self._kitchen.held[seat]
            facing = FACINGS[self._engine.facing(seat)]
            sprites.append(Sprite("chef", x, y, facing, seat, "" if held == "none" else held))
        return sprites

    def _refresh(self) -> None:
        noops = (
            seat
            for seat, execution in enumerate(self._running)
            if execution and execution.instance.option == NOOP.option
        )
        self._kitchen.refresh(frozenset(noops))

    def _lot(self, agent: int) -> int:
        return lot(self._seed, self._steps, agent)

    def _watch(self, execution: Execution) -> Execution:
        """A counter that somebody else emptied or filled on the way is a failure of the executor."""
        if execution.instance.option in _ON_COUNTERS and self._kitchen.absent(execution.instance):
            return execution._replace(failed=execution.failed or f"explicit:{TARGET_ABSENT}")
        return execution

    def _chef(self, seat: int, execution: Execution) -> Partner:
        pose = self._kitchen.poses[seat]
        instance = execution.instance
        if instance.option in _UNPLANNED:
            return Partner(Wish.FIXED, pose)
        if execution.failed or not instance.target:
            return Partner(Wish.HOLD, pose)
        target = self.layout.by_text[instance.target]
        patient = self._stands_by(seat, instance, target)
        wish = Wish.GO
        if self.layout.alone[target.index][pose] == 0:
            wish = Wish.HOLD if patient else Wish.ACT
        spot = self.layout.spots[target.index]
        return Partner(wish, pose, spot, True, execution.rank, execution.grants, patient)

    def _carry_on(self, seat: int, execution: Execution, chef: Partner) -> Execution:
        """A chef that made way comes after the one it made way for."""
        rank = (self._steps, self._lot(seat)) if chef.yielded else execution.rank
        if rank == execution.rank and chef.grants == execution.grants:
            return execution
        return execution._replace(rank=rank, grants=chef.grants)

    def _stands_by(self, seat: int, instance: Instance, target: Target) -> bool:
        """A dish in front of a pot that cooks waits for the soup."""
        return (
            instance.option == "plate_soup"
            and self._kitchen.held[seat] == "dish"
            and self._kitchen.pot(target).phase == "cooking"
        )

    def _end(self, seat: int, execution: Execution, change: Change | None) -> Ended | None:
        """How the execution ended with this step, if it did."""
        now, option = self._steps, execution.instance.option
        if option == NOOP.option:
            return None
        if option == PRIMITIVE:
            return execution.ended(seat, "success", now)
        contract, outcome = self.contracts[option], execution.failed
        if not outcome and change is not None:
            own = change.before["held"] != change.after["held"]
            return execution.ended(seat, judge(contract, change), now, change.before != change.after, own)
        if not outcome and not execution.instance.target:
            outcome = "success" if now - execution.start >= WAIT_STEPS else ""
        elif not outcome:
            outcome = execution.late(contract.timeout, now)
        return execution.ended(seat, outcome, now) if outcome else None

    def _offered(self, agent: int, instance: Instance) -> bool:
        if instance.option in _ON_COUNTERS and self._kitchen.absent(instance):
            return False
        return instance in self._known[agent] if self._own else instance in self.candidates(agent)

    def _agent_step(self, seat: int, execution: Execution, chef: Partner, action: int) -> AgentStep:
        held, pose = self._kitchen.held[seat], self._kitchen.poses[seat]
        if action == INTERACT:
            activity = Activity.INTERACT
        elif pose != chef.pose:
            activity = Activity.MOVE
        elif execution.instance.option == NOOP.option:
            activity = Activity.NOOP
        elif execution.instance.option == PRIMITIVE:
            activity = Activity.WAIT if action == STAY else Activity.BLOCKED
        else:
            activity = Activity.WAIT if chef.wish is Wish.HOLD else Activity.BLOCKED
        x, y = self.layout.cells[pose >> 2]
        return AgentStep(x, y, FACINGS[pose & 3], PRIMITIVES[action], "" if held == "none" else held, activity)

    def _spell(self, option: str, target: Target, held: str, item: str) -> tuple[str, str]:
        """Text and table key of an instance. `item`: what lies on a counter, or how far a pot is."""
        shared = self.layout.shared(target)
        text = words.item_text(option, target.text, held, item, shared)
        key = f"{option}/{item}" if target.kind == POT else option
        if option in _ON_COUNTERS:
            side = "shared" if shared else "private"
            key = f"{option}/{side}/{held if option == DROP else item}"
        return text, key


def make(
    name: str, start_cooking_effect: StartCookingEffect = "ordered", contracts: Contracts | None = None
) -> OvercookedGame:
    """A fresh game on a layout, under the shipped contracts or others."""
    return OvercookedGame(load(name), start_cooking_effect, contracts)
