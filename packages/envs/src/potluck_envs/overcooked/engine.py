"""The real overcooked-ai engine, stepped in place, with the identity of every object.

Uses the engine's own parts (`resolve_interacts`, `resolve_movement`, `step_environment_effects`) on one state, which
a test holds equal to `get_state_transition`. What upstream leaves to trip over is dealt with here:
recipe settings are class attributes, so each entry that needs them puts this layout's back; `env.step` and its
motion planner (which writes into site-packages) are never used; a layout's start state is shared and mutable, so it
is rebuilt; states are compared by canonical bytes, never by `==`; rewards are the engine's per-agent sparse ones.

Object identity rides on the engine's own objects, which it hands from dispenser to hand, counter, pot and window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from potluck_envs.overcooked.layout import COUNTER, DIRECTIONS, INTERACT, POT, STAY, WINDOW, Cell, Layout
from potluck_envs.overcooked.shim import (
    EVENT_TYPES,
    Action,
    ObjectState,
    OvercookedState,
    PlayerState,
    Recipe,
    SoupState,
)
from potluck_optionlib.game import Event

ACTIONS: tuple[Any, ...] = tuple(Action.ALL_ACTIONS)
_FACING_INDEX = {direction: i for i, direction in enumerate(DIRECTIONS)}
_NOBODY = -1
_PASSES_ON = ("pickup", "cook", "plate")
"""Events at which an object comes from whoever held it or put something into it before."""

Packed = tuple[Any, ...]


class Outcome(NamedTuple):
    """What one joint action brought."""

    sparse: tuple[float, ...]
    shaped: tuple[float, ...]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """A state as plain values."""

    timestep: int
    players: Packed
    objects: Packed
    counts: tuple[tuple[str, int], ...]


class Engine:
    """One running kitchen."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._mdp = layout.mdp
        self._flags = {kind: [False] * self._mdp.num_players for kind in EVENT_TYPES}
        self._counts: dict[str, int] = {}
        self.state: Any = None
        self.reset()

    def reset(self) -> None:
        """Back to the layout's start."""
        self._activate()
        self.state = self._mdp.get_standard_start_state().deepcopy()
        self._counts = {}
        for item in self._all_items():
            self._name(item, _NOBODY)

    def step(self, joint: Sequence[int]) -> Outcome:
        """Plays one joint action (indices N, S, E, W, stay, interact)."""
        actions = tuple(ACTIONS[a] for a in joint)
        state, mdp = self.state, self._mdp
        sparse: Sequence[float] = (0,) * len(actions)
        shaped: Sequence[float] = sparse
        events: tuple[Event, ...] = ()
        if INTERACT in joint:
            self._activate()
            before = [self._look(seat) if a == INTERACT else None for seat, a in enumerate(joint)]
            sparse, shaped = mdp.resolve_interacts(state, actions, self._flags)
            events = tuple(self._tell(before, sparse))
        if any(a < STAY for a in joint):
            mdp.resolve_movement(state, actions)
        if state.objects:
            self._activate()
        mdp.step_environment_effects(state)
        return Outcome(tuple(sparse), tuple(shaped), events)

    def cell(self, seat: int) -> Cell:
        """Where a seat's chef stands."""
        position: Cell = self.state.players[seat].position
        return position

    def facing(self, seat: int) -> int:
        """Index into N, S, E, W."""
        return _FACING_INDEX[self.state.players[seat].orientation]

    def held(self, seat: int) -> str:
        """What a chef holds, or "none"."""
        item = self.state.players[seat].held_object
        return "none" if item is None else str(item.name)

    def item(self, cell: Cell) -> str:
        """What lies on a counter, or "none"."""
        item = self.state.objects.get(cell)
        return "none" if item is None else str(item.name)

    def soup(self, cell: Cell) -> tuple[tuple[str, ...], int]:
        """Sorted ingredients and cooking tick (-1 idle) of a pot."""
        soup = self.state.objects.get(cell)
        if soup is None:
            return (), -1
        return tuple(sorted(i.name for i in soup._ingredients)), soup._cooking_tick

    def snapshot(self) -> EngineSnapshot:
        """The whole state as plain values, identities included."""
        state = self.state
        players = tuple((p.position, p.orientation, _pack(p.held_object)) for p in state.players)
        objects = tuple(_pack(item) for item in state.objects.values())
        return EngineSnapshot(state.timestep, players, objects, tuple(self._counts.items()))

    def restore(self, snapshot: EngineSnapshot) -> None:
        """Goes back, exactly."""
        state = self.state
        state.timestep = snapshot.timestep
        state.players = tuple(PlayerState(p, o, _unpack(held)) for p, o, held in snapshot.players)
        state.objects = {packed[1]: _unpack(packed) for packed in snapshot.objects}
        self._counts = dict(snapshot.counts)

    def state_bytes(self) -> bytes:
        """Canonical JSON of what the engine simulates (identities are bookkeeping and left out).

        Written out by hand, at every step: names are plain words and the rest is whole numbers.
        """
        state = self.state
        players = ",".join([_plain_player(player) for player in state.players])
        items = state.objects
        objects = ",".join(
            [
                _plain_thing(name, cell) if (name := items[cell].name) != "soup" else _plain(items[cell], cell)
                for cell in sorted(items)
            ]
        )
        return f"[{state.timestep},[{players}],[{objects}]]".encode()

    def reference(self) -> OvercookedState:
        """An independent upstream state, for comparisons."""
        self._activate()
        return self.state.deepcopy()

    def _activate(self) -> None:
        if Recipe._conf is not self.layout.recipe_config:
            Recipe.configure(self.layout.recipe_config)

    def _look(self, seat: int) -> tuple[Any, Cell, str, int]:
        player = self.state.players[seat]
        (x, y), (dx, dy) = player.position, player.orientation
        cell = (x + dx, y + dy)
        item = self.state.objects.get(cell)
        tick = item._cooking_tick if item is not None and item.name == "soup" else -1
        return player.held_object, cell, self.layout.rows[cell[1]][cell[0]], tick

    def _tell(self, before: Sequence[Any], sparse: Sequence[float]) -> Iterator[Event]:
        """Events of one step. A hand changes by its own interact only, so each agent's change is its own doing."""
        started: set[Cell] = set()
        for seat, look in enumerate(before):
            if look is None:
                continue
            had, cell, tile, tick = look
            has = self.state.players[seat].held_object
            if had is has:
                soup = self.state.objects.get(cell)
                fresh = tile == POT and had is None and soup is not None and soup._cooking_tick == 0
                if fresh and tick < 0 and cell not in started:
                    started.add(cell)
                    yield self._event("cook", seat, soup, "pot", cell)
            elif tile == COUNTER:
                kind, item = ("drop", had) if has is None else ("pickup", has)
                yield self._event(kind, seat, item, "counter", cell)
            elif tile == POT and has is None:
                yield self._pot(seat, had, cell)
            elif tile == POT:
                has.potluck_dish = had.potluck_id
                yield self._event("plate", seat, has, "pot", cell)
            elif tile == WINDOW:
                yield self._event("deliver", seat, had, "window", cell, 1.0 if sparse[seat] > 0 else 0.0)
            else:
                self._name(has, _NOBODY)
                yield self._event("pickup", seat, has, "dispenser", cell)

    def _pot(self, seat: int, ingredient: Any, cell: Cell) -> Event:
        soup = self.state.objects[cell]
        if not hasattr(soup, "potluck_id"):
            self._name(soup, _NOBODY)
        soup.potluck_from = seat
        return Event("pot", seat, ingredient.potluck_id, "pot", *cell)

    def _event(self, kind: str, seat: int, item: Any, place: str, cell: Cell, reward: float = 0.0) -> Event:
        giver = item.potluck_from if kind in _PASSES_ON else _NOBODY
        item.potluck_from = seat
        return Event(kind, seat, item.potluck_id, place, *cell, giver, _parts(item), reward)

    def _name(self, item: Any, giver: int) -> None:
        number = self._counts[item.name] = self._counts.get(item.name, 0) + 1
        item.potluck_id = f"{item.name}#{number}"
        item.potluck_from = giver
        if item.name == "soup":
            item.potluck_dish = ""
            for part in item._ingredients:
                if not hasattr(part, "potluck_id"):
                    self._name(part, giver)

    def _all_items(self) -> Iterator[Any]:
        yield from self.state.objects.values()
        yield from (p.held_object for p in self.state.players if p.held_object is not None)


def _parts(item: Any) -> tuple[str, ...]:
    if item.name != "soup":
        return ()
    dish = (item.potluck_dish,) if item.potluck_dish else ()
    return (*(part.potluck_id for part in item._ingredients), *dish)


def _pack(item: Any) -> Packed | None:
    if item is None:
        return None
    packed = (item.name, item.position, item.potluck_id, item.potluck_from)
    if item.name != "soup":
        return packed
    return (*packed, item._cooking_tick, item.potluck_dish, tuple(_pack(part) for part in item._ingredients))


def _unpack(packed: Packed | None) -> Any:
    if packed is None:
        return None
    name, position, identity, giver = packed[:4]
    if name == "soup":
        item = SoupState(position, [_unpack(part) for part in packed[6]], packed[4])
        item.potluck_dish = packed[5]
    else:
        item = ObjectState(name, position)
    item.potluck_id, item.potluck_from = identity, giver
    return item


@cache
def _plain_thing(name: str, cell: Cell) -> str:
    return f'["{name}",[{cell[0]},{cell[1]}],-1,[]]'


def _plain_player(player: Any) -> str:
    (x, y), (dx, dy), held = player.position, player.orientation, player.held_object
    return f"[[{x},{y}],[{dx},{dy}],{'null' if held is None else _plain(held, held.position)}]"


def _plain(item: Any, cell: Cell) -> str:
    if item.name != "soup":
        return _plain_thing(item.name, cell)
    x, y = cell
    parts = ",".join([f'"{part.name}"' for part in item._ingredients])
    return f'["soup",[{x},{y}],{item._cooking_tick},[{parts}]]'
