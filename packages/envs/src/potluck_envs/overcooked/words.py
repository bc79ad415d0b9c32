"""What agents read: rules of a seat, the present state in short lines, the option texts, and the coarse state key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from potluck_envs.overcooked.greedy import Outlook
from potluck_envs.overcooked.layout import DISHES, ONIONS, POT, TOMATOES, WINDOW, Layout

STAGES = ("filling", "full", "cooking", "ready")


def rules(layout: Layout, seat: int) -> str:
    """Two to four plain sentences, the same in every episode."""
    reach = {
        "onions": _reaches(layout, seat, ONIONS),
        "tomatoes": _reaches(layout, seat, TOMATOES),
        "dishes": _reaches(layout, seat, DISHES),
        "pots": _reaches(layout, seat, POT),
        "the window": _reaches(layout, seat, WINDOW),
    }
    here = [name for name, reached in reach.items() if reached]
    beyond = [name for name, reached in reach.items() if not reached and _exists(layout, name)]
    best = layout.goal(()) or ("onion", "onion", "onion")
    counts = " and ".join(f"{best.count(name)} {_plural(name, best.count(name))}" for name in dict.fromkeys(best))
    lines = [
        f"You and a mate cook soup: put {counts} in a pot, start it, plate the soup with a dish, serve it.",
        f"You can get to {_join(here)}." if here else "You can get to no station.",
    ]
    if beyond:
        lines.append(f"Only your mate can get to {_join(beyond)}; hand things over on shared counters.")
    return " ".join(lines)


def observation(layout: Layout, see: Outlook) -> str:
    """The present state in short lines."""
    lines = [f"hold {see.held}"]
    for number, pot in enumerate(see.pots, start=1):
        lines.append(f"pot{number} {pot.words}")
    if see.free_shared or see.on_shared:
        names = ("onion", "tomato", "dish") if layout.of_kind(TOMATOES) else ("onion", "dish")
        lines.append(_count((*names, "soup") if "soup" in see.on_shared else names, see.on_shared))
    lines.append(f"mate hold {see.mate}")
    return "\n".join(lines)


def state_key(see: Outlook) -> str:
    """The row of table policies: what is held, how far the best pot is, what lies on shared counters."""
    return _key(see.held, max([pot.stage for pot in see.pots], default=0), see.on_shared)


def item_text(option: str, target: str, held: str, item: str, shared: bool) -> str:
    """An option instance in plain words."""
    counter = f"the {'shared ' if shared else ''}counter at {target}"
    thing = "item" if held == "none" else held
    if not target:
        return "wait a moment"
    return {
        "pick_onion": f"take an onion from {target}",
        "pick_tomato": f"take a tomato from {target}",
        "place_in_pot": f"put the {thing} in the pot at {target}",
        "start_cooking": f"start the pot at {target}",
        "pick_dish": f"take a dish from {target}",
        "plate_soup": f"plate the soup from the pot at {target}",
        "deliver": f"serve the {thing} at {target}",
        "drop_held": f"put the {thing} on {counter}",
        "pick_from_counter": f"take the {item} from {counter}",
    }.get(option, f"{option.replace('_', ' ')} at {target}")


@lru_cache(maxsize=1024)
def _key(held: str, stage: int, lying: tuple[str, ...]) -> str:
    return f"held={held} pot={STAGES[stage]} shared={'+'.join(sorted(set(lying))) or 'none'}"


@lru_cache(maxsize=1024)
def _count(names: tuple[str, ...], lying: tuple[str, ...]) -> str:
    return "shared " + " ".join(f"{name} {lying.count(name)}" for name in names)


def _reaches(layout: Layout, seat: int, kind: str) -> bool:
    return any(layout.reaches(seat, target) for target in layout.of_kind(kind))


def _exists(layout: Layout, name: str) -> bool:
    return name != "tomatoes" or bool(layout.of_kind(TOMATOES))


def _plural(name: str, count: int) -> str:
    return name if count == 1 else {"onion": "onions", "tomato": "tomatoes"}[name]


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
