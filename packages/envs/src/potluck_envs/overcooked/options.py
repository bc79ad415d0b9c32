"""The Overcooked option library as contracts.

Instances exist wherever their target exists: every dispenser, pot and window of the layout, every free counter that
the seat reaches, every item that lies on one. No instance is held back for strategy: what cannot work is found by
burn-in and mined into guards, and what the executor cannot even begin fails explicitly.

`start_cooking` promises a soup that an order asks for (ours): the engine also lets a chef cook one onion and deliver
it for nothing, and with this promise that is a failure that guards can be mined from. Starting contents that no
ingredient could turn into an ordered soup any more counts too: it is the only way to clear a pot. The plain promise
of the paper (the pot starts cooking) is `start_cooking_effect="plain"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from potluck_envs.overcooked.layout import DISHES, ONIONS, POT, TOMATOES, WINDOW, Layout
from potluck_optionlib.contracts import Change, Contract
from potluck_optionlib.game import Instance

StartCookingEffect = Literal["ordered", "plain"]

NO_PATH, NOTHING_HELD, TARGET_ABSENT = "NoPath", "NothingHeld", "TargetAbsent"
DROP, TAKE = "drop_held", "pick_from_counter"
"""The options on counters."""
TIMEOUT = 40
WAIT_STEPS = 3
_WALK = 20
"""Steps of a plate_soup time-out that are not the soup's own cooking time."""


WAIT = Instance("wait")


class World(Protocol):
    """What contracts may ask of a running kitchen."""

    def holds(self, agent: int) -> bool: ...

    def has_path(self, agent: int, instance: Instance) -> bool: ...

    def free(self, agent: int) -> Sequence[Instance]: ...

    def lying(self, agent: int) -> Sequence[Instance]: ...

    def absent(self, instance: Instance) -> bool: ...


Instances = Callable[[World, int], Sequence[Instance]]


def library(layout: Layout, start_cooking_effect: StartCookingEffect = "ordered") -> dict[str, Contract[World]]:
    """The contracts of a layout, by name; `pick_tomato` only where there are tomatoes."""
    cooking = "the pot starts cooking a soup that an order asks for, or that nothing could still make one"
    if start_cooking_effect == "plain":
        cooking = "the pot starts cooking"
    plate_timeout = max(TIMEOUT, _WALK + max(layout.times.values()))

    def everywhere(name: str, kind: str) -> Instances:
        fixed = tuple(Instance(name, target.text) for target in layout.of_kind(kind))
        return lambda world, agent: fixed

    contracts = [
        _contract(
            "pick_onion", "onion", everywhere("pick_onion", ONIONS), _acquire("onion"), "hand: not onion -> onion"
        ),
        _contract(
            "pick_tomato",
            "tomato",
            everywhere("pick_tomato", TOMATOES),
            _acquire("tomato"),
            "hand: not tomato -> tomato",
        ),
        _contract(
            "place_in_pot",
            "pot",
            everywhere("place_in_pot", POT),
            _placed,
            "hand: ingredient -> none and the pot's count rises",
            ("held", "tgt_pot_state"),
            needs_held=True,
        ),
        _contract(
            "start_cooking",
            "cook",
            everywhere("start_cooking", POT),
            _cooks_order if start_cooking_effect == "ordered" else _cooks,
            cooking,
            ("held", "tgt_pot_state"),
            solo_only=True,
        ),
        _contract("pick_dish", "dish", everywhere("pick_dish", DISHES), _acquire("dish"), "hand: not dish -> dish"),
        _contract(
            "plate_soup",
            "plate",
            everywhere("plate_soup", POT),
            _acquire("soup"),
            "hand: not soup -> soup",
            ("held", "tgt_pot_state"),
            needs_held=True,
            timeout=plate_timeout,
        ),
        _contract("deliver", "serve", everywhere("deliver", WINDOW), _delivered, "hand: soup -> none", needs_held=True),
        _contract(
            DROP,
            "drop",
            _free,
            _dropped,
            "hand: item -> none and it lies on the counter",
            ("held", "tgt_item"),
            needs_held=True,
            absent=True,
        ),
        _contract(
            TAKE,
            "take",
            _lying,
            _taken,
            "hand: none -> the item that lay on the counter",
            ("held", "tgt_item"),
            absent=True,
        ),
        Contract[World](
            "wait",
            "wait",
            (),
            WAIT_STEPS,
            False,
            "time passes",
            (),
            lambda w, a: (WAIT,),
            lambda w, a, i: None,
            lambda change: True,
        ),
    ]
    tomatoes = bool(layout.of_kind(TOMATOES))
    return {contract.name: contract for contract in contracts if tomatoes or contract.name != "pick_tomato"}


def _contract(
    name: str,
    stem: str,
    instances: Instances,
    effect: Callable[[Change], bool],
    promise: str,
    reads: tuple[str, ...] = ("held",),
    *,
    needs_held: bool = False,
    absent: bool = False,
    solo_only: bool = False,
    timeout: int = TIMEOUT,
) -> Contract[World]:
    failures = ((NOTHING_HELD,) if needs_held else ()) + ((TARGET_ABSENT,) if absent else ()) + (NO_PATH,)

    def explicit(world: World, agent: int, instance: Instance) -> str | None:
        if needs_held and not world.holds(agent):
            return NOTHING_HELD
        if absent and world.absent(instance):
            return TARGET_ABSENT
        return None if world.has_path(agent, instance) else NO_PATH

    return Contract[World](name, stem, reads, timeout, solo_only, promise, failures, instances, explicit, effect)


def _free(world: World, agent: int) -> Sequence[Instance]:
    return world.free(agent)


def _lying(world: World, agent: int) -> Sequence[Instance]:
    return world.lying(agent)


def _acquire(item: str) -> Callable[[Change], bool]:
    return lambda change: change.before["held"] != item and change.after["held"] == item


def _emptied(change: Change) -> bool:
    return change.before["held"] != "none" and change.after["held"] == "none"


def _placed(change: Change) -> bool:
    return _emptied(change) and int(change.after["tgt_pot_count"]) > int(change.before["tgt_pot_count"])


def _cooks(change: Change) -> bool:
    return change.before["tgt_pot_phase"] == "idle" and change.after["tgt_pot_phase"] == "cooking"


def _cooks_order(change: Change) -> bool:
    return _cooks(change) and change.after["tgt_pot_due"] == "yes"


def _delivered(change: Change) -> bool:
    return change.before["held"] == "soup" and change.after["held"] == "none"


def _dropped(change: Change) -> bool:
    return _emptied(change) and change.before["tgt_item"] == "none" and change.after["tgt_item"] != "none"


def _taken(change: Change) -> bool:
    item = change.before["tgt_item"]
    return change.before["held"] == "none" and item not in ("none", "") and change.after["held"] == item


def pot_phase(contents: tuple[str, ...], tick: int, cook_time: int) -> str:
    """ "empty", "idle", "cooking" or "ready"."""
    if tick < 0:
        return "idle" if contents else "empty"
    return "ready" if tick >= cook_time else "cooking"


def pot_state(contents: tuple[str, ...], phase: str) -> str:
    """The feature `tgt_pot_state`: the phase, or what an idle pot holds ("onion2", "onion1tomato2")."""
    if phase != "idle":
        return phase
    counts: Mapping[str, int] = {name: contents.count(name) for name in dict.fromkeys(contents)}
    return "".join(f"{name}{count}" for name, count in counts.items())
