"""How executors that go somewhere expand: how far it is, where to, and what to play there.

Distances take everybody else to make way, but agents that never move (`still`) and cells that are closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from potluck_optionlib.contracts import NO_PATH, Aim, Contract, Enter, Reach, Stand
from potluck_optionlib.executions import Turn
from potluck_optionlib.game import Instance
from potluck_optionlib.planners import FAR, Field, Grid, Wish
from potluck_optionlib.world import Cell, World, cell_of, text_of


class _Way(NamedTuple):
    """Where an executor leads from here."""

    steps: int
    """Primitives until the agent can act; FAR if there is no way."""
    target: int
    """Index in the grid of the cell to go to, or to face."""
    facing: str = ""
    """How to stand there, if that matters."""


_NOWHERE = _Way(FAR, -1)


class Expansion:
    """The executors of one running game."""

    def __init__(self, world: World, contracts: Mapping[str, Contract[Any]], grid: Grid) -> None:
        self._world, self._contracts, self._grid = world, contracts, grid
        self._areas: dict[Instance, tuple[frozenset[Cell], tuple[int, ...]]] = {}
        self._targets = {text_of(cell): i for cell, i in grid.target_index.items()}
        self.still: tuple[int, ...] = ()
        """Agents that never move."""

    def there(self, agent: int, instance: Instance) -> bool | None:
        """Is the agent in the instance's area, or on its target? None where there is neither."""
        executor = self._contracts[instance.option].executor
        x, y, _ = self._world.pose(agent)
        if isinstance(executor, Enter):
            return (x, y) in self._area(agent, instance, executor)[0]
        return instance.target == text_of((x, y)) if instance.target else None

    def distance(self, agent: int, instance: Instance) -> int:
        """Primitives until the agent is where it can act, others making way; 0 where it need not go anywhere."""
        executor = self._contracts[instance.option].executor
        if not isinstance(executor, (Reach, Stand, Aim, Enter)):
            return 0
        return self._way(agent, instance, executor, self._grid.pose(self._world.pose(agent))).steps

    def send(self, agent: int, turn: Turn, executor: Reach | Stand | Aim[Any] | Enter[Any]) -> None:
        """Towards where the executor acts; there: turn, wait until ready, act."""
        walker, instance = turn.walker, turn.execution.instance
        way = self._way(agent, instance, executor, walker.pose)
        if way.steps >= FAR:
            turn.execution = replace(turn.execution, failed=f"explicit:{NO_PATH}")
            return
        walker.target, walker.adjacent = way.target, isinstance(executor, Reach) and executor.adjacent
        on_target = self._grid.cell(walker.pose) == self._grid.targets[way.target]
        arrived = way.steps == 0 or (bool(way.facing) and on_target)
        walker.wish = Wish.ACT if arrived else Wish.GO
        if isinstance(executor, Stand):
            turn.goal = (self._grid.targets[way.target],)
        elif isinstance(executor, Enter):
            turn.goal = self._area(agent, instance, executor)[0]
            if arrived:  # There from the start: it ends with this step, whether others make it leave or not.
                walker.wish, turn.last = Wish.HOLD, True
        elif way.steps > 0:
            facing = self._grid.facings[walker.pose % len(self._grid.facings)]
            turn.act, turn.acts_last = self._grid.motion.turns[facing, way.facing or facing][0], False
        elif isinstance(executor, Reach) or executor.ready(self._world, agent):
            turn.act = executor.primitive
        else:
            turn.acts_last = False

    def _way(self, agent: int, instance: Instance, executor: Reach | Stand | Aim[Any] | Enter[Any], pose: int) -> _Way:
        field = self._field(agent)
        if isinstance(executor, (Reach, Stand)):
            target = self._target(instance)
            table = field.table(isinstance(executor, Reach) and executor.adjacent)
            return _NOWHERE if target is None else _Way(table.row(target)[pose], target)
        table = field.on
        if isinstance(executor, Enter):
            target = table.nearest(self._area(agent, instance, executor)[1])[pose]
            return _Way(table.row(target)[pose], target)
        facing = self._grid.facings[pose % len(self._grid.facings)]
        for x, y, wanted in executor.poses(self._world, agent, instance):
            target = self._grid.target_index.get((x, y))
            turns = self._grid.motion.turns.get((facing, wanted), ("", FAR))[1] if wanted else 0
            if target is not None and (steps := table.row(target)[pose] + turns) < FAR:
                return _Way(steps, target, wanted)
        return _NOWHERE

    def _field(self, agent: int) -> Field:
        """The tables for an agent, agents that never move being closed cells."""
        closed = self._world.closed()
        if not self.still:
            return self._grid.field(closed) if closed else self._open
        poses = (self._world.pose(seat) for seat in self.still if seat != agent and not self._world.away(seat))
        return self._grid.field({(pose.x, pose.y) for pose in poses}.union(closed))

    @cached_property
    def _open(self) -> Field:
        """The tables with nothing closed."""
        return self._grid.field()

    def _target(self, instance: Instance) -> int | None:
        """Index of the target's cell, however it is written; None off the map. Raises ValueError for no cell."""
        known = self._targets.get(instance.target)
        return self._grid.target_index.get(cell_of(instance.target)) if known is None else known

    def _area(self, agent: int, instance: Instance, executor: Enter[Any]) -> tuple[frozenset[Cell], tuple[int, ...]]:
        """An area's cells, and their indices in the grid."""
        known = self._areas.get(instance)
        if known is None:
            cells = frozenset(executor.area(self._world, agent, instance))
            known = self._areas[instance] = (cells, tuple(sorted(self._grid.target_index[cell] for cell in cells)))
        return known
