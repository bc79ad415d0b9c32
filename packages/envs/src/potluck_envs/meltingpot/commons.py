"""The part of the two games that is the same: the engine as a `World`, what agents know, eating and zapping.

The engine is asked for its state when somebody looks, so that a game that is only listed starts none. A snapshot is the
engine's moment (see engine.py) with what the agents know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from potluck_envs.meltingpot.engine import Engine, Moment
from potluck_envs.meltingpot.frame import Cell, Frame
from potluck_envs.meltingpot.ground import MOTION, ground
from potluck_envs.meltingpot.sight import Sight, gone, looked
from potluck_envs.meltingpot.substrates import ENGINE
from potluck_optionlib.contracts import AWAY, Aim, Contract, Stand, option
from potluck_optionlib.game import Event, Instance, Scene, Sprite
from potluck_optionlib.planners import Pose
from potluck_optionlib.world import Outcome, World, text_of
from potluck_optionlib.world import cell_of as _cell_of

PREFIX = "meltingpot/"
TIMEOUT = 40
WAIT_STEPS = 3
STOCHASTIC_CAP = 5000
"""Longest episode under the substrates' own ending rule."""
EAT, ZAP = "eat_apple", "zap"
_ZAP_TIMEOUT = 20
_TOOLS = ("FIRE_ZAP", "FIRE_CLEAN")

cell_of = lru_cache(maxsize=4096)(_cell_of)


class State(NamedTuple):
    """All that changes beside the engine."""

    frame: Frame
    apples: int
    """Cells with an apple, in bits."""
    dirt: int
    sights: tuple[Sight, ...]
    eaten: tuple[int, ...]
    """Apples by agent."""
    cleaned: tuple[int, ...]
    """Cells by agent."""
    zapped: tuple[int, ...]
    """Others zapped out, by agent."""
    cleaners: Mapping[Cell, int]
    """Who cleaned what in the last step."""


class Commons(World):
    """One running substrate. Subclasses say what options, places and observations there are."""

    dynamics, reward_unit, motion = "stock", "apples", MOTION

    def __init__(self, substrate: str, *, zapping: bool = False, stochastic_ending: bool = False) -> None:
        self._engine = Engine(substrate, None, stochastic_ending)
        known = self._engine.substrate
        kind = ("zap/" if zapping else "") + ("stochastic/" if stochastic_ending else "")
        self.name, self.engine = f"{PREFIX}{kind}{substrate}", ENGINE
        self.agents, self.primitives = known.agents, known.actions
        self.horizon = STOCHASTIC_CAP if stochastic_ending else known.horizon
        self.zapping = zapping
        self.ground = ground(substrate)
        self._state: State | None = None
        self._eating = [Instance(EAT, text_of(cell)) for cell in self.ground.cells]
        self._zaps = tuple(Instance(ZAP, f"agent_{seat}") for seat in range(self.agents))

    # The engine

    def floor(self) -> frozenset[Cell]:
        return self.ground.floor

    def reset(self, seed: int) -> None:
        self._engine.begin(seed)
        self._state = None

    def reseed(self, seed: int) -> None:
        self._engine.reseed(seed)

    def step(self, primitives: Sequence[str]) -> Outcome:
        state = self.state
        begun = self.place_events(state.frame.events) if state.frame.step == 0 else ()
        frame = self._engine.step(primitives)
        self._state = self._after(state, frame)
        return Outcome(frame.rewards, (*begun, *self.place_events(frame.events)))

    def snapshot(self) -> tuple[Moment, State]:
        state = self.state
        return self._engine.moment(), state

    def restore(self, snapshot: Any) -> None:
        moment, self._state = snapshot
        self._engine.go_to(moment)

    def over(self) -> bool:
        """Has the engine ended the episode?"""
        return self.state.frame.done

    @property
    def state(self) -> State:
        """The present state; starts the engine where it has not been needed yet."""
        if self._state is None:
            frame, ground = self._engine.frame, self.ground
            apples, dirt = ground.mask(frame.apples), ground.mask(frame.dirt)
            none = (0,) * self.agents
            nowhere = Sight((0, 0, 0), ground.poses[0, 0, 0], away=True)
            sights = tuple(
                nowhere if s is None else looked(nowhere, s, ground.poses[s], ground.views[s], apples, dirt)
                for s in frame.poses
            )
            self._state = State(frame, apples, dirt, sights, none, none, none, {})
        return self._state

    def state_bytes(self) -> bytes:
        state = self.state
        frame = state.frame
        parts = (frame.step, frame.poses, state.apples, state.dirt, frame.zap_wait, frame.clean_wait, frame.done)
        return repr(parts).encode()

    def place_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """The engine's events, with places by their names here."""
        return events

    # Agents

    def pose(self, agent: int) -> Pose:
        return (self._state or self.state).sights[agent].pose

    def away(self, agent: int) -> bool:
        return (self._state or self.state).sights[agent].away

    def standing(self) -> Sequence[Pose | None]:
        return [None if sight.away else sight.pose for sight in (self._state or self.state).sights]

    def own(self, agent: int) -> Mapping[str, str]:
        state = self.state
        return {
            "me": str(agent),
            "eaten": str(state.eaten[agent]),
            "cleaned": str(state.cleaned[agent]),
            "zapped": str(state.zapped[agent]),
        }

    def cell(self, agent: int) -> Cell:
        """Where an agent stands."""
        x, y, _ = (self._state or self.state).sights[agent].stance
        return x, y

    def mates_in_view(self, agent: int) -> list[Cell]:
        """Cells of the others in an agent's window."""
        view, bit = self.state.sights[agent].view, self.ground.bit
        cells = [(s.stance[0], s.stance[1]) for i, s in enumerate(self.state.sights) if i != agent and not s.away]
        return [cell for cell in cells if view & bit[cell]]

    # Options

    def apples_in_reach(self, agent: int) -> Sequence[Instance]:
        """One instance of eating for each apple in reach, in reading order."""
        return self.ground.picked(self._eating, (self._state or self.state).apples & self.ground.near[self.cell(agent)])

    def ripe(self, agent: int, instance: Instance) -> bool:
        """Is the apple still there?"""
        return bool((self._state or self.state).apples & self.ground.bit_of[instance.target])

    def others_in_reach(self, agent: int) -> Sequence[Instance]:
        """One instance of zapping for each other agent in reach."""
        near, sights = self.ground.near[self.cell(agent)], self.state.sights
        return [
            zap
            for other, (zap, sight) in enumerate(zip(self._zaps, sights, strict=True))
            if other != agent and not sight.away and near & self.ground.bit[sight.stance[:2]]
        ]

    def victim(self, instance: Instance) -> int:
        """Seat of the agent that an instance is about."""
        return int(instance.target.removeprefix("agent_"))

    def aims_at_agent(self, agent: int, instance: Instance) -> Iterator[Pose]:
        """Poses from which the zapping beam hits another agent now, nobody being in its way; the soonest first."""
        victim = self.victim(instance)
        others = self.ground.mask(self.cell(i) for i in range(self.agents) if i not in (agent, victim))
        return self.ground.aims(self.state.sights[agent].stance, self.cell(victim), others)

    # Pictures

    def scene(self) -> Scene:
        level = self.ground.level
        return Scene(level.width, level.height, level.tiles)

    def sprites(self) -> Sequence[Sprite]:
        frame = self.state.frame
        things = [("dirt", cell) for cell in sorted(frame.dirt)] + [("apple", cell) for cell in sorted(frame.apples)]
        beams = [Sprite(f"{beam.kind}_beam", beam.x, beam.y) for beam in frame.beams]
        return [*[Sprite(kind, x, y) for kind, (x, y) in things], *beams]

    def _after(self, state: State, frame: Frame) -> State:
        """The state after a step."""
        bit, views, poses = self.ground.bit, self.ground.views, self.ground.poses
        apples, dirt = state.apples, state.dirt
        if frame.apples is not state.frame.apples:
            for cell in frame.apples ^ state.frame.apples:
                apples ^= bit[cell]
        if frame.dirt is not state.frame.dirt:
            for cell in frame.dirt ^ state.frame.dirt:
                dirt ^= bit[cell]
        changed = apples ^ state.apples | dirt ^ state.dirt
        sights = []
        for sight, stance in zip(state.sights, frame.poses, strict=True):
            if stance is None:
                sights.append(gone(sight))
            elif stance == sight.stance and not sight.away and not changed & sight.view:
                sights.append(sight)
            else:
                sights.append(looked(sight, stance, poses[stance], views[stance], apples, dirt))
        eaten, cleaned, zapped, cleaners = state.eaten, state.cleaned, state.zapped, {}
        for event in frame.events:
            if event.kind == "eat":
                eaten = _counted(eaten, event.agent)
            elif event.kind == "clean":
                cleaned = _counted(cleaned, event.agent)
                cleaners[event.x, event.y] = event.agent
            elif event.kind == "zap":
                zapped = _counted(zapped, event.agent)
        return State(
            frame,
            apples,
            dirt,
            tuple(sights),
            eaten,
            cleaned,
            zapped,
            cleaners,
        )


def eating() -> Contract[Commons]:
    """Go onto the cell of an apple, which eats it."""
    return option(
        EAT,
        stem="apple",
        instances=Commons.apples_in_reach,
        present=Commons.ripe,
        executor=Stand(),
        effect=lambda change: _eaten(change.before, change.after),
        promise="onto the apple's cell, and the agent has eaten one more apple",
        reads=("there",),
        timeout=TIMEOUT,
        failures=(AWAY,),
    )


def zapping() -> Contract[Commons]:
    """Fire the zapping beam at another agent in reach."""
    return option(
        ZAP,
        instances=Commons.others_in_reach,
        present=lambda world, agent, instance: not world.away(world.victim(instance)),
        executor=Aim("FIRE_ZAP", Commons.aims_at_agent, lambda world, agent: world.state.frame.zap_wait[agent] == 0),
        effect=lambda change: change.before["zapped"] != change.after["zapped"] and change.after["out"] == "yes",
        promise="the agent has zapped one more, and the target is out",
        timeout=_ZAP_TIMEOUT,
        failures=(AWAY,),
    )


def _eaten(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    entered = before["there"] == "no" and after["there"] == "yes"
    return entered and before["ripe"] == "yes" and before["eaten"] != after["eaten"]


def _counted(counts: tuple[int, ...], agent: int) -> tuple[int, ...]:
    return (*counts[:agent], counts[agent] + 1, *counts[agent + 1 :])
