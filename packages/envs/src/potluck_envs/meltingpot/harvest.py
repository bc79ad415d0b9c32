"""Commons Harvest: six patches of apples that grow back the faster the more are left, and never from nothing.

A patch is its apple cells and the cells beside them. One goes to a patch, eats there apple by apple, and leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from potluck_envs.meltingpot.commons import EAT, TIMEOUT, WAIT_STEPS, Commons, eating, zapping
from potluck_envs.meltingpot.frame import Cell
from potluck_envs.meltingpot.ground import STEPS, Place, ground, middle
from potluck_optionlib.contracts import AWAY, Contract, Enter, option, waiting
from potluck_optionlib.game import Event, Instance, ItemView, Observation
from potluck_optionlib.world import Look, text_of

SUBSTRATE = "commons_harvest__open"
TO_PATCH, LEAVE = "move_to_patch", "leave_patch"
_FIELD = "field"


class Harvest(Commons):
    """One running episode of Commons Harvest."""

    def __init__(self, *, zapping: bool = False, stochastic_ending: bool = False) -> None:
        super().__init__(SUBSTRATE, zapping=zapping, stochastic_ending=stochastic_ending)
        self.patches = patches(SUBSTRATE)
        self.place_of = {cell: place.name for place in self.patches for cell in place.cells}
        self.outside = self.ground.floor - self.place_of.keys()
        sites = self.ground.level.apple_sites
        self._sites = {place.name: self.ground.mask(place.cells & sites) for place in self.patches}
        self._areas = {place.text: place for place in self.patches}
        self.going = tuple(Instance(TO_PATCH, place.text) for place in self.patches)

    def place_events(self, events: Sequence[Event]) -> Sequence[Event]:
        return [
            Event(e.kind, e.agent, e.object, self.place_of[e.x, e.y], e.x, e.y, reward=e.reward)
            if e.kind in ("eat", "grow")
            else e
            for e in events
        ]

    def about(self, instance: Instance) -> Mapping[str, str]:
        if instance.option == EAT:
            return {"ripe": "yes" if self.ripe(0, instance) else "no"}
        if instance.target.startswith("agent_"):
            return {"out": "yes" if self.away(self.victim(instance)) else "no"}
        return {}

    def area(self, agent: int, instance: Instance) -> frozenset[Cell]:
        """The cells of the patch that an instance is about."""
        return self._areas[instance.target].cells

    def alive(self) -> tuple[str, ...]:
        """Names of the patches that have an apple."""
        apples = self.state.apples
        return tuple(name for name, sites in self._sites.items() if apples & sites)

    def rules(self, agent: int) -> str:
        return (
            f"You are agent {agent} of {self.agents}. Apples grow in {len(self.patches)} patches. Each apple that one "
            "of you eats counts for all. A patch grows back, the faster the more apples are left in it, and an empty "
            "patch never grows again."
        )

    def observe(self, agent: int) -> Observation:
        sight = self.state.sights[agent]
        if sight.away:
            return Observation("here away", "away")
        here = self.place_of.get(self.cell(agent), _FIELD)
        left = {name: self._left(agent, name) for name in self._sites}
        mates = [self.place_of.get(cell, _FIELD) for cell in self.mates_in_view(agent)]
        lines = [
            f"here {here}",
            f"around apple {(sight.apples & sight.view).bit_count()} mate {len(mates)}",
            *[f"{name} {'unknown' if count < 0 else f'apple {count}'}" for name, count in left.items()],
        ]
        kind = "field" if here == _FIELD else f"patch left={_amount(left[here])}"
        alive = sum(count != 0 for count in left.values())
        state = "few" if alive <= 2 else "some" if alive <= 4 else "many"
        return Observation("\n".join(lines), f"{kind} alive={state}")

    def look(self, agent: int, instance: Instance) -> Look:
        name, target = instance.option, instance.target
        if name in (EAT, TO_PATCH):
            [(_, text, _, key, greedy)] = self.views(agent, "", (instance,), (0,))
            return Look(text, key, greedy)
        if name == LEAVE:
            return _LEAVE
        return Look(f"zap {target}", name, -50.0) if target else _WAIT

    def views(self, agent: int, stem: str, instances: Sequence[Instance], steps: Sequence[int]) -> Sequence[ItemView]:
        name = instances[0].option
        if name == TO_PATCH:
            patches = [self._areas[target].name for _, target in instances]
            return [
                _going(stem, patch, instances[place].target, self._left(agent, patch), steps[place])
                for place, patch in enumerate(patches)
            ]
        if name != EAT:
            return super().views(agent, stem, instances, steps)
        (x, y), cells, places = self.cell(agent), self.ground.cell_of, self.place_of
        left: dict[str, int] = {}
        found = []
        for (_, target), n in zip(instances, steps, strict=True):
            tx, ty = cell = cells[target]
            patch = places[cell]
            if patch not in left:
                left[patch] = self._left(agent, patch)
            found.append(_apple(stem, target, patch, left[patch], abs(tx - x) + abs(ty - y), n))
        return found

    def _left(self, agent: int, patch: str) -> int:
        """Apples of a patch as an agent last saw them; -1 where it has not seen all of its cells."""
        sight, sites = (self._state or self.state).sights[agent], self._sites[patch]
        return (sight.apples & sites).bit_count() if not sites & ~sight.seen else -1


def contracts(world: Harvest) -> list[Contract[Any]]:
    """The options of Commons Harvest."""
    found: list[Contract[Any]] = [
        eating(),
        _entering(
            TO_PATCH,
            "patch",
            Enter(Harvest.area),
            lambda world, agent: world.going,
            "from outside into the patch",
        ),
        _entering(
            LEAVE,
            "leave",
            Enter(lambda world, agent, instance: world.outside),
            lambda world, agent: _OUT,
            "from inside of a patch out of all patches",
        ),
        waiting(WAIT_STEPS),
    ]
    return [*found[:-1], zapping(), found[-1]] if world.zapping else found


def _entering(name: str, stem: str, executor: Enter[Any], instances: Any, promise: str) -> Contract[Harvest]:
    return option(
        name,
        stem=stem,
        instances=instances,
        present=lambda world, agent, instance: True,
        executor=executor,
        effect=lambda change: change.before["there"] == "no" and change.after["there"] == "yes",
        promise=promise,
        reads=("there",),
        timeout=TIMEOUT,
        failures=(AWAY,),
    )


@lru_cache(maxsize=1)
def patches(substrate: str) -> tuple[Place, ...]:
    """The patches in reading order: apple cells and the cells beside them."""
    here = ground(substrate)
    found = []
    for number, sites in enumerate(here.level.patches(), start=1):
        beside = {(x + dx, y + dy) for x, y in sites for dx, dy in (*STEPS, (0, 0))}
        found.append(Place(f"patch{number}", text_of(middle(sites)), frozenset(beside & here.floor)))
    return tuple(found)


_OUT = (Instance(LEAVE),)
_WAIT = Look("wait a moment", "", 1.0)
_LEAVE = Look("leave the patch", "", 2.0)


@lru_cache(maxsize=1 << 15)
def _apple(stem: str, target: str, patch: str, left: int, near: int, steps: int) -> ItemView:
    last = "its last apple" if left == 1 else f"{left} left" if left >= 0 else "number unknown"
    greedy = min(left, 4) * 10.0 - near - 15
    return ItemView(stem, f"eat the apple at {target} of {patch}, {last}", steps, f"{EAT}/{_amount(left)}", greedy)


@lru_cache(maxsize=1 << 12)
def _going(stem: str, patch: str, target: str, left: int, steps: int) -> ItemView:
    known = f"{left} apples when last seen" if left >= 0 else "never seen whole"
    greedy = 6.0 + (left if left > 0 else -9)
    text = f"move to {patch} at {target}, {known}"
    return ItemView(stem, text, steps, f"{TO_PATCH}/{_amount(left)}", greedy)


def _amount(count: int) -> str:
    if count < 0:
        return "unknown"
    return ("none", "last", "few", "few")[count] if count <= 3 else "many"
