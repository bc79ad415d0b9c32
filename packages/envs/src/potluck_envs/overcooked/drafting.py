"""Kitchens under drafted contracts: what their author must know, and what a contract must keep to be played here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from potluck_envs.overcooked.game import OvercookedGame
from potluck_envs.overcooked.layout import load
from potluck_optionlib.contracts import Contract
from potluck_optionlib.errors import ContractError

_READS = ((), ("held",), ("held", "tgt_pot_state"), ("held", "tgt_item"))

NOTES = """
This game carries options out itself: it walks to a pose that faces the target and plays `interact` once. Write
`Contract` in full (see above), without an executor.

`contracts(layout)` gets a `Layout`. `layout.of_kind(kind)` are the targets of one tile kind, in map order; each has
`text` ("(x,y)"), `x` and `y`. Kinds: "O" onion dispenser, "T" tomato dispenser, "D" dish dispenser, "P" pot,
"S" serving window, "X" counter. Nothing else of the layout is needed.

The hooks `instances(world, agent)` and `explicit(world, agent, instance)` get a running kitchen, which answers:
- `world.has_path(agent, instance)`: can the target be faced at all (explicit failure "NoPath" if not);
- `world.holds(agent)`: is anything in the agent's hands ("NothingHeld" if the option needs something);
- `world.free(agent)`, `world.lying(agent)`: for the two options on counters, the instances of `drop_held` on empty
  counters and of `pick_from_counter` on counters with an item; return these as they are;
- `world.absent(instance)`: has the counter's item, or the empty counter, gone ("TargetAbsent").
An option may be begun with the wrong thing in hand: then `interact` does nothing, and its effect is false.

Facts in `change.before` and `change.after`: `held` ("none", "onion", "tomato", "dish", "soup"), `tgt_item` (what lies
on the target, or "none"), and for pots `tgt_pot_phase` ("empty", "idle", "cooking", "ready"), `tgt_pot_count` ("0" to
"3") and `tgt_pot_due` ("yes" if its contents are a soup that is ordered).
`reads` is one of `()`, `("held",)`, `("held", "tgt_pot_state")` for options on pots, `("held", "tgt_item")` for options
on counters; in this order. `tgt_pot_state` is the phase, or what an idle pot holds, e.g. "onion2".

Names that the game's texts know: pick_onion, pick_tomato, place_in_pot, start_cooking, pick_dish, plate_soup, deliver,
drop_held, pick_from_counter, wait. `plate_soup` waits in front of a pot that cooks, so its timeout must be longer than
the cooking time. The contract of wait:
`Contract("wait", "wait", (), 3, False, "time passes", (), lambda world, agent: (Instance("wait"),),
lambda world, agent, instance: None, lambda change: True)`.
"""


def with_contracts(layout_name: str, build: Callable[[Any], Sequence[Contract[Any]]]) -> OvercookedGame:
    """A game on a layout under what `build(layout)` gives. Raises ContractError where a contract cannot be played."""
    layout = load(layout_name)
    contracts = tuple(build(layout))
    for contract in contracts:
        if contract.reads not in _READS:
            known = ", ".join(map(str, _READS))
            raise ContractError(f"{contract.name} reads {contract.reads!r}; a kitchen tells one of {known}.")
        if not isinstance(contract.failures, tuple):
            raise ContractError(f"{contract.name}.failures is {contract.failures!r}. Give a tuple of reasons.")
    names = [contract.name for contract in contracts]
    if len(set(names)) < len(names):
        raise ContractError("Two contracts have one name. Rename one of them.")
    if "wait" not in names:
        raise ContractError("There is no option `wait`. Add its contract.")
    return OvercookedGame(layout, contracts=contracts)
