"""Cleanup: apples grow in the orchard while the river is clean, and dirt goes only where somebody's beam takes it.

River and orchard are far apart and wider than anybody's reach, so that each is three stretches, west to east, that one
goes to. What is in a stretch is eaten or cleaned thing by thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from potluck_envs.meltingpot.commons import EAT, TIMEOUT, WAIT_STEPS, Commons, cell_of, eating, zapping
from potluck_envs.meltingpot.frame import Cell
from potluck_envs.meltingpot.ground import Ground, Place, ground, middle
from potluck_envs.meltingpot.sight import Sight
from potluck_optionlib.contracts import AWAY, Aim, Contract, Enter, option, waiting
from potluck_optionlib.game import Instance, ItemView, Observation
from potluck_optionlib.planners import Pose
from potluck_optionlib.world import Look, text_of

SUBSTRATE = "clean_up"
CLEAN, TO_RIVER, TO_ORCHARD = "clean_dirt", "go_to_river", "go_to_orchard"
BORDERS = (10, 19)
"""Columns at which the second and the third stretch begin."""
GROWTH_LIMIT = 0.4
"""Dirt fraction from which no apple grows."""
_FIELD = "field"
_NEAR = 2
"""Steps up to which tables call an option near."""


class CleanUp(Commons):
    """One running episode of Cleanup."""

    def __init__(self, *, zapping: bool = False, stochastic_ending: bool = False) -> None:
        super().__init__(SUBSTRATE, zapping=zapping, stochastic_ending=stochastic_ending)
        self.river, self.orchard = stretches(SUBSTRATE)
        self.place_of = {cell: place.name for place in (*self.river, *self.orchard) for cell in place.cells}
        self._dirt_sites = self.ground.level.dirt_sites
        self._river_mask, self._orchard_mask = (
            self.ground.mask(cell for place in places for cell in place.cells) for places in (self.river, self.orchard)
        )
        self._dirt_mask = self.ground.mask(self._dirt_sites)
        self._cleaning = [Instance(CLEAN, text_of(cell)) for cell in self.ground.cells]
        self._stretches = {place.text: self.ground.mask(place.cells) for place in (*self.river, *self.orchard)}
        self._areas = {place.text: place for place in (*self.river, *self.orchard)}
        self._remembered: list[tuple[Sight | None, tuple[int, int]]] = [(None, (0, 0))] * self.agents
        """What agents know of the river, with the sight that it was worked out from."""
        self.going = {
            name: tuple(Instance(name, place.text) for place in places)
            for name, places in ((TO_RIVER, self.river), (TO_ORCHARD, self.orchard))
        }

    def about(self, instance: Instance) -> Mapping[str, str]:
        if instance.option == EAT:
            return {"ripe": "yes" if self.ripe(0, instance) else "no"}
        if instance.option == CLEAN:
            cell = cell_of(instance.target)
            cleaner = self.state.cleaners.get(cell)
            return {"dirty": "yes" if self.dirty(0, instance) else "no", "cleaner": str(cleaner)}
        if instance.target.startswith("agent_"):
            return {"out": "yes" if self.away(self.victim(instance)) else "no"}
        return {}

    def dirt_in_reach(self, agent: int) -> Sequence[Instance]:
        """One instance of cleaning for each dirty cell in reach, in reading order."""
        return self.ground.picked(self._cleaning, (self._state or self.state).dirt & self.ground.near[self.cell(agent)])

    def dirty(self, agent: int, instance: Instance) -> bool:
        """Is the cell still dirty?"""
        return bool((self._state or self.state).dirt & self.ground.bit_of[instance.target])

    def aims_at_dirt(self, agent: int, instance: Instance) -> Iterator[Pose]:
        """Poses from which the cleaning beam hits a cell now, no other dirt being in its way; the soonest first."""
        state = self._state or self.state
        return self.ground.aims(state.sights[agent].stance, self.ground.cell_of[instance.target], state.dirt)

    def steps_to_dirt(self, agent: int, instances: Sequence[Instance]) -> list[int]:
        """Steps and turns to the first of those poses."""
        state, cells = self._state or self.state, self.ground.cell_of
        targets = [cells[instance[1]] for instance in instances]
        return self.ground.soonest(state.sights[agent].stance, targets, state.dirt)

    def area(self, agent: int, instance: Instance) -> frozenset[Cell]:
        """The cells of the stretch that an instance is about."""
        return self._areas[instance.target].cells

    def rules(self, agent: int) -> str:
        return (
            f"You are agent {agent} of {self.agents}. Apples grow in the orchard in the south, the more the cleaner "
            "the river in the north is; none grows while 40 of 100 river cells are dirty. Each apple that one of you "
            "eats counts for all. New dirt comes to the river all the time, so some of you must clean."
        )

    def observe(self, agent: int) -> Observation:
        sight = self.state.sights[agent]
        if sight.away:
            return Observation("here away", "away")
        here = self.place_of.get(self.cell(agent), _FIELD)
        mates = [self.place_of.get(cell, _FIELD)[:-1] for cell in self.mates_in_view(agent)]
        known, share = self._remembered_dirt(agent)
        ripe = (sight.apples & sight.view).bit_count()
        lines = [
            f"here {here}",
            f"around dirt {(sight.dirt & sight.view).bit_count()} apple {ripe}",
            f"river dirty {share}" if known else "river unknown",
            f"orchard apple {sight.apples.bit_count()}" if sight.seen & self._orchard_mask else "orchard unknown",
            f"mate river {mates.count('river')} orchard {mates.count('orchard')}",
        ]
        level = "unknown" if not known else "clean" if share < 20 else "fair" if share < 40 else "dirty"
        kind = here.rstrip("123")
        return Observation("\n".join(lines), f"{kind} river={level} apples={'none' if not ripe else _few(ripe)}")

    def look(self, agent: int, instance: Instance) -> Look:
        name, target = instance.option, instance.target
        if not target:
            return _WAIT
        if name in (EAT, CLEAN) or name in self.going:
            [(_, text, _, key, greedy)] = self.views(agent, "", (instance,), (0,))
            return Look(text, key, greedy)
        return Look(f"zap {target}", name, -50.0)

    def views(self, agent: int, stem: str, instances: Sequence[Instance], steps: Sequence[int]) -> Sequence[ItemView]:
        name = instances[0].option
        if name in self.going:
            return self._drawing(agent, stem, instances, steps)
        if name not in (EAT, CLEAN):
            return super().views(agent, stem, instances, steps)
        (x, y), cells, views = self.cell(agent), self.ground.cell_of, _things(stem, name, self._eager(agent, name))
        found = []
        for (_, target), n in zip(instances, steps, strict=True):
            tx, ty = cells[target]
            found.append(views[target, abs(tx - x) + abs(ty - y), n])
        return found

    def _remembered_dirt(self, agent: int) -> tuple[int, int]:
        """River cells that an agent has seen, and how many in 100 of them were dirty then."""
        sight = (self._state or self.state).sights[agent]
        of, told = self._remembered[agent]
        if of is not sight:
            known = (sight.seen & self._dirt_mask).bit_count()
            told = known, 100 * (sight.dirt & self._dirt_mask).bit_count() // known if known else 0
            self._remembered[agent] = sight, told
        return told

    # A scripted player: three agents keep the river clean, the others eat, all by what they know.

    def _eager(self, agent: int, name: str) -> float:
        return (60.0 if name == CLEAN else 40.0) if self._cleans(agent) else (60.0 if name == EAT else 20.0)

    def _drawing(
        self, agent: int, stem: str, instances: Sequence[Instance], steps: Sequence[int]
    ) -> Sequence[ItemView]:
        """How stretches look: the better, the more there may be in them."""
        name, sight = instances[0].option, (self._state or self.state).sights[agent]
        towards = 15.0 if name == (TO_RIVER if self._cleans(agent) else TO_ORCHARD) else 5.0
        maybe = ~sight.seen | (sight.dirt if name == TO_RIVER else sight.apples)
        found = []
        for place, (_, target) in enumerate(instances):
            count = (maybe & self._stretches[target]).bit_count()
            found.append(_going(stem, name, target, towards + (count if count < 9 else 9), steps[place]))
        return found

    def _cleans(self, agent: int) -> bool:
        if agent >= 3:
            return False
        known, share = self._remembered_dirt(agent)
        return share > 8 or not known


def contracts(world: CleanUp) -> list[Contract[Any]]:
    """The options of Cleanup."""
    found: list[Contract[Any]] = [
        eating(),
        option(
            CLEAN,
            stem="dirt",
            instances=CleanUp.dirt_in_reach,
            present=CleanUp.dirty,
            executor=Aim(
                "FIRE_CLEAN",
                CleanUp.aims_at_dirt,
                lambda world, agent: world.state.frame.clean_wait[agent] == 0,
                CleanUp.steps_to_dirt,
            ),
            effect=lambda change: _cleaned(change.before, change.after),
            promise="the agent's own beam has cleaned the cell",
            timeout=TIMEOUT,
            failures=(AWAY,),
        ),
        _going_to(TO_RIVER, "river"),
        _going_to(TO_ORCHARD, "orchard"),
        waiting(WAIT_STEPS),
    ]
    return [*found[:-1], zapping(), found[-1]] if world.zapping else found


def _cleaned(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    own = before["cleaned"] != after["cleaned"] and after["cleaner"] == after["me"]
    return own and before["dirty"] == "yes"


def _going_to(name: str, stem: str) -> Contract[CleanUp]:
    return option(
        name,
        stem=stem,
        instances=lambda world, agent: world.going[name],
        present=lambda world, agent, instance: True,
        executor=Enter(CleanUp.area),
        effect=lambda change: change.before["there"] == "no" and change.after["there"] == "yes",
        promise=f"from outside into the stretch of the {stem}",
        reads=("there",),
        timeout=TIMEOUT,
        failures=(AWAY,),
    )


@lru_cache(maxsize=1)
def stretches(substrate: str) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """River and orchard, each in three stretches from west to east."""
    here = ground(substrate)
    level = here.level
    river = frozenset(cell for cell in level.dirt_sites)
    top = min(y for _, y in level.apple_sites)
    orchard = frozenset(cell for cell in here.floor if cell[1] >= top)
    return _split(here, "river", river), _split(here, "orchard", orchard)


def _split(here: Ground, name: str, cells: frozenset[Cell]) -> tuple[Place, ...]:
    edges = (0, *BORDERS, here.level.width)
    parts = [frozenset(c for c in cells if low <= c[0] < high) for low, high in pairwise(edges)]
    return tuple(Place(f"{name}{n}", text_of(middle(part)), part) for n, part in enumerate(parts, start=1))


_WAIT = Look("wait a moment", "", 1.0)


class _Things(dict[tuple[str, int, int], ItemView]):
    """By target, steps to it as the crow flies, and steps: how options on single things are seen."""

    def __init__(self, stem: str, name: str, eager: float) -> None:
        super().__init__()
        self._of = stem, name, eager

    def __missing__(self, key: tuple[str, int, int]) -> ItemView:
        (stem, name, eager), (target, near, steps) = self._of, key
        text = f"eat the apple at {target}" if name == EAT else f"clean the dirt at {target}"
        told = f"{name}/near" if near <= _NEAR else f"{name}/far"
        view = self[key] = ItemView(stem, text, steps, told, eager - near)
        return view


_things = lru_cache(maxsize=16)(_Things)


@lru_cache(maxsize=1 << 12)
def _going(stem: str, name: str, target: str, greedy: float, steps: int) -> ItemView:
    return ItemView(stem, f"go to {_names()[target]} at {target}", steps, name, greedy)


@lru_cache(maxsize=1)
def _names() -> Mapping[str, str]:
    """The names of stretches by their texts."""
    return {place.text: place.name for places in stretches(SUBSTRATE) for place in places}


def _few(count: int) -> str:
    return "few" if count <= 3 else "many"
