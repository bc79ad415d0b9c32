"""What the engine's state is after a step, in symbols, and the small changes that a frame is put together from.

The engine's side tells a `Change`: plain numbers that cross a process boundary cheaply. `Frames` turns a sequence of
them into `Frame`s. Cells are (x, y), y downwards.
"""

from __future__ import annotations

from typing import NamedTuple

from potluck_optionlib.game import Event

Cell = tuple[int, int]
Stance = tuple[int, int, int]
"""x, y, facing: 0 to 3 for N, E, S, W."""

EMPTY, APPLE, DIRT = 0, 1, 2
THING, EAT, CLEAN, ZAP = 0, 1, 2, 3
ZAP_BEAM, CLEAN_BEAM = "zap", "clean"
BEAMS = (ZAP_BEAM, CLEAN_BEAM)


class Beam(NamedTuple):
    """A cell that a beam passes."""

    kind: str
    """ZAP_BEAM or CLEAN_BEAM."""
    x: int
    y: int


class Frame(NamedTuple):
    """The exact state after a step, as far as it can be seen, and what happened in that step."""

    step: int
    """Steps played since the start."""
    poses: tuple[Stance | None, ...]
    """Per agent; None while it is zapped out."""
    rewards: tuple[float, ...]
    apples: frozenset[Cell]
    """Cells with a ripe apple."""
    dirt: frozenset[Cell]
    """Dirty cells of the river."""
    events: tuple[Event, ...]
    """Kinds eat, grow, clean, dirt, zap; things that are there at the start come up in the start's frame."""
    zap_wait: tuple[int, ...]
    """Per agent: steps until it can zap."""
    clean_wait: tuple[int, ...]
    """Per agent: steps until it can clean."""
    beams: tuple[Beam, ...]
    done: bool
    """Whether the engine has ended the episode."""

    def state_bytes(self) -> bytes:
        """Canonical bytes of the state (not of what happened)."""
        things = sorted(self.apples), sorted(self.dirt)
        return repr((self.step, self.poses, *things, self.zap_wait, self.clean_wait)).encode()


class Change(NamedTuple):
    """A step as told by the engine's side. Cells are numbers y * width + x."""

    poses: tuple[int, ...]
    """Per agent: 4 * cell + facing, or -1."""
    rewards: tuple[float, ...]
    zap_wait: tuple[int, ...]
    clean_wait: tuple[int, ...]
    news: tuple[int, ...]
    """Flat triples, in the order in which things happened: THING with a cell and what it holds now (EMPTY, APPLE,
    DIRT), EAT or CLEAN with agent and cell, ZAP with agent and victim."""
    beams: tuple[int, ...]
    """Flat pairs: index into BEAMS, cell."""
    done: bool


class Frames:
    """Puts frames together. One episode at a time."""

    def __init__(self, width: int, height: int) -> None:
        self._cells = [(x, y) for y in range(height) for x in range(width)]
        self._stances = [(x, y, facing) for x, y in self._cells for facing in range(4)]
        self._apples: set[Cell] = set()
        self._dirt: set[Cell] = set()
        self._changed: set[int] = set()
        """Kinds of things that have come or gone in a step."""
        self._last: Frame | None = None

    def begin(self, change: Change) -> Frame:
        """The frame of a start."""
        self._apples, self._dirt = set(), set()
        return self._frame(0, change, frozenset(), frozenset())

    def go_on(self, before: Frame, change: Change) -> Frame:
        """The frame after another one, which need not be the last one made."""
        if before is not self._last:
            self._apples, self._dirt = set(before.apples), set(before.dirt)
        return self._frame(before.step + 1, change, before.apples, before.dirt)

    def _frame(self, step: int, change: Change, apples: frozenset[Cell], dirt: frozenset[Cell]) -> Frame:
        events: tuple[Event, ...] = ()
        if change.news:
            self._changed = set()
            events = self._events(change.news)
            apples = frozenset(self._apples) if APPLE in self._changed else apples
            dirt = frozenset(self._dirt) if DIRT in self._changed else dirt
        beams = change.beams
        self._last = Frame(
            step,
            tuple([self._stances[pose] if pose >= 0 else None for pose in change.poses]),
            change.rewards,
            apples,
            dirt,
            events,
            change.zap_wait,
            change.clean_wait,
            tuple([Beam(BEAMS[beams[i]], *self._cells[beams[i + 1]]) for i in range(0, len(beams), 2)]),
            change.done,
        )
        return self._last

    def _events(self, news: tuple[int, ...]) -> tuple[Event, ...]:
        """Events in an order in which the books balance: what grows and is eaten in one step grows first."""
        done: dict[tuple[int, int], int] = {}
        things: dict[int, int] = {}
        told = iter(news)
        for kind, one, other in zip(told, told, told, strict=True):
            if kind == THING:
                things[one] = other
            else:
                # Two beams may hit one cell or one victim in a step: the first is what did it.
                done.setdefault((kind, other), one)
        events: list[Event] = []
        zaps: list[Event] = []
        for (deed, what), agent in done.items():
            if deed == ZAP:
                zaps.append(Event("zap", agent, f"agent_{what}", "agent"))
            else:
                was = self._thing(what)
                self._appear_and_vanish(events, deed, what, agent, was, things.pop(what, was))
        for cell, now in things.items():
            self._turn(events, cell, self._thing(cell), now)
        return (*events, *zaps)

    def _thing(self, cell: int) -> int:
        at = self._cells[cell]
        return APPLE if at in self._apples else DIRT if at in self._dirt else EMPTY

    def _appear_and_vanish(self, events: list[Event], deed: int, cell: int, agent: int, was: int, now: int) -> None:
        name, thing = ("eat", APPLE) if deed == EAT else ("clean", DIRT)
        x, y = self._cells[cell]
        if was != thing:
            self._turn(events, cell, was, thing)
        place, item, reward = ("orchard", "apple", 1.0) if thing == APPLE else ("river", "dirt", 0.0)
        events.append(Event(name, agent, item, place, x, y, -1, (), reward))
        (self._apples if thing == APPLE else self._dirt).discard((x, y))
        self._changed.add(thing)
        self._turn(events, cell, EMPTY, now)

    def _turn(self, events: list[Event], cell: int, was: int, now: int) -> None:
        if was == now:
            return
        self._changed |= {was, now}
        x, y = at = self._cells[cell]
        if was == APPLE:
            self._apples.discard(at)
        elif was == DIRT:
            self._dirt.discard(at)
        if now == APPLE:
            self._apples.add(at)
            events.append(Event("grow", -1, "apple", "orchard", x, y))
        elif now == DIRT:
            self._dirt.add(at)
            events.append(Event("dirt", -1, "dirt", "river", x, y))
