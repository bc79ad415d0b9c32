"""A greedy chef: how good each option looks right now, for scripted partners.

It knows recipes, pots and counters but not the other chef's mind. Work that its own side of the kitchen cannot finish
is handed over on shared counters, of which one stays free for a dish.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from potluck_envs.overcooked.layout import POT, WINDOW, Target, missing

STEP_COST = 0.1
IDLE = 1.0
"""Desirability of waiting."""
_NEVER = -50.0
_MINE, _BOTH = -1, -2


@dataclass(frozen=True)
class Pot:
    """A pot as a cook sees it."""

    target: Target
    contents: tuple[str, ...]
    phase: str
    left: int
    """Cooking steps left."""
    state: str
    """The feature `tgt_pot_state`."""
    goal: tuple[str, ...] | None
    """The best recipe it can still become."""

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """Ingredients to add."""
        if self.phase in ("cooking", "ready") or self.goal is None:
            return ()
        return tuple(missing(self.contents, self.goal) or ())

    @cached_property
    def due(self) -> bool:
        """Holds the best that it can become, or what nothing can make a soup for an order."""
        return bool(self.contents) and self.goal in (self.contents, None)

    @cached_property
    def startable(self) -> bool:
        """Idle and due."""
        return self.phase == "idle" and self.due

    @cached_property
    def words(self) -> str:
        """The state in short words."""
        if self.phase == "cooking":
            return f"cook {self.left}"
        if self.phase in ("ready", "empty"):
            return self.phase
        return " ".join(f"{name} {self.contents.count(name)}" for name in dict.fromkeys(self.contents))

    @cached_property
    def stage(self) -> int:
        """How far it is: filling, full, cooking, ready."""
        if self.phase in ("cooking", "ready"):
            return 2 if self.phase == "cooking" else 3
        return int(self.startable or len(self.contents) == 3)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one chef sees, worked out once per state."""

    held: str
    mate: str
    pots: tuple[Pot, ...]
    """Pots of the whole kitchen."""
    mine: frozenset[int]
    """Target indices that this chef can get to now."""
    both: frozenset[int]
    """Of these, the ones that the other can get to as well."""
    on_shared: tuple[str, ...]
    """Items on counters that both reach."""
    free_shared: int
    kinds: frozenset[str]
    """Tile kinds of `mine`."""
    scores: dict[tuple[str, int, str], float] = field(default_factory=dict)
    """What `score` has found so far."""

    def wanted(self) -> list[str]:
        """Ingredients that pots of the kitchen still lack, less those on their way."""
        lacks = [name for pot in self.pots for name in pot.lacks]
        for item in (*self.on_shared, self.mate):
            if item in lacks:
                lacks.remove(item)
        return lacks

    def dish_due(self) -> bool:
        """Is a soup under way that no dish is under way for?"""
        soups = sum(pot.phase in ("cooking", "ready") or pot.startable for pot in self.pots)
        dishes = [self.mate, *self.on_shared].count("dish")
        return soups > dishes


def score(see: Outlook, option: str, target: Target, item: str) -> float:
    """Desirability of an option instance; `item` is what lies on the target.

    Of targets other than pots, it matters only whether the other chef gets there, too.
    """
    place = target.index if target.kind == POT else _BOTH if target.index in see.both else _MINE
    key = (option, place, item)
    value = see.scores.get(key)
    if value is None:
        value = see.scores[key] = _score(see, option, target, item)
    return value


def _score(see: Outlook, option: str, target: Target, item: str) -> float:
    if see.held == "none":
        return _empty_handed(see, option, target, item)
    if option == "plate_soup":
        return _plate(see, target)
    if option == "place_in_pot":
        return _place(see, target)
    if option == "drop_held":
        return _drop(see, target)
    return 100.0 if option == "deliver" and see.held == "soup" else _NEVER


def _pot(see: Outlook, target: Target) -> Pot:
    return next(pot for pot in see.pots if pot.target.index == target.index)


def _plate(see: Outlook, target: Target) -> float:
    if see.held != "dish":
        return _NEVER
    return {"ready": 85.0, "cooking": 80.0}.get(_pot(see, target).phase, _NEVER)


def _place(see: Outlook, target: Target) -> float:
    pot = _pot(see, target)
    return 70.0 + 2 * len(pot.contents) if see.held in pot.lacks else _NEVER


def _drop(see: Outlook, target: Target) -> float:
    shared = target.index in see.both
    if see.held == "soup":
        return 90.0 if shared and WINDOW not in see.kinds else _NEVER
    useful_here = POT in see.kinds
    if not useful_here:
        return 60.0 if shared else _NEVER
    if see.held == "dish":
        busy = any(pot.phase in ("cooking", "ready") for pot in see.pots)
        return _NEVER if busy else 5.0 - shared
    wanted = any(see.held in pot.lacks for pot in see.pots if pot.target.index in see.mine)
    return _NEVER if wanted else 20.0 - shared


def _empty_handed(see: Outlook, option: str, target: Target, item: str) -> float:
    if option == "start_cooking":
        return 75.0 if _pot(see, target).startable else _NEVER
    cooks = POT in see.kinds
    if option == "pick_from_counter":
        return _take(see, target, item, cooks)
    if option == "pick_dish":
        return 65.0 if see.dish_due() and (cooks or see.free_shared > 0) else _NEVER
    if option in ("pick_onion", "pick_tomato"):
        return _fetch(see, option.removeprefix("pick_"), cooks)
    return _NEVER


def _fetch(see: Outlook, ingredient: str, cooks: bool) -> float:
    if cooks:
        return 54.0 if ingredient in see.wanted() else _NEVER
    if see.free_shared <= 1 or see.on_shared.count(ingredient) >= 2:
        return _NEVER
    return 54.0 if ingredient in see.wanted() else 40.0


def _take(see: Outlook, target: Target, item: str, cooks: bool) -> float:
    if item == "soup":
        return 90.0 if WINDOW in see.kinds else _NEVER
    if not cooks:
        return _NEVER
    if item == "dish":
        soon = any(pot.phase in ("cooking", "ready") for pot in see.pots if pot.target.index in see.mine)
        return 66.0 if soon and see.mate != "dish" else _NEVER
    lacks = any(item in pot.lacks for pot in see.pots if pot.target.index in see.mine)
    return 56.0 if lacks else _NEVER
