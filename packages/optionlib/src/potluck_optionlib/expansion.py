"""How executors that go somewhere expand: how far it is, where to, and what to play there.

Distances take everybody else to make way, but agents that never move (`still`) and cells that are closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from potluck_optionlib.contracts import NO_PATH, Aim, Contract, Enter, Reach, Stand
from potluck_optionlib.executions import Turn
from potluck_optionlib.game import Instance
from potluck_optionlib.planners import FAR, Field, Grid, Table, Wish
from potluck_optionlib.world import Cell, World, cell_of, text_of

_Way: TypeAlias = tuple[int, int, str]
"""Where an executor leads from here: primitives until the agent can act (FAR if there is no way), index in the grid of
the cell to go to, or to face, and how to stand there, if that matters."""


class _Area:
    """The cells that an executor enters."""

    def __init__(self, cells: Collection[Cell], grid: Grid) -> None:
        self.cells = frozenset(cells)
        self._targets = tuple(sorted(grid.target_index[cell] for cell in self.cells))
        self._of: Field | None = None
        self._nearest: tuple[Sequence[int], Sequence[int]] = ((), ())

    def nearest(self, field: Field) -> tuple[Sequence[int], Sequence[int]]:
        """[pose]: index of the nearest of its cells, and how far it is; those of the field asked for last are kept."""
        if field is not self._of:
            self._of, self._nearest = field, field.on.nearest(self._targets)
        return self._nearest


_NOWHERE: _Way = (FAR, -1, "")
_NO_TURN = ("", FAR)
_Travel: TypeAlias = Reach | Stand | Aim[Any] | Enter[Any]


class Expansion:
    """The executors of one running game."""

    def __init__(self, world: World, contracts: Mapping[str, Contract[Any]], grid: Grid) -> None:
        self._world, self._contracts, self._grid = world, contracts, grid
        self._areas: dict[Instance, _Area] = {}
        self._targets = {text_of(cell): i for cell, i in grid.target_index.items()}
        self._texts = {cell: text_of(cell) for cell in grid.cells}
        self.still: tuple[int, ...] = ()
        """Agents that never move."""
        self._narrowed: Field | None = None
        """The tables around them: a grid drops what no game holds, and they are dear to make."""

    def there(self, agent: int, instance: Instance) -> bool | None:
        """Is the agent in the instance's area, or on its target? None where there is neither."""
        return self.theres(agent, self._contracts[instance.option], (instance,))[0]

    def theres(self, agent: int, contract: Contract[Any], instances: Sequence[Instance]) -> Sequence[bool | None]:
        """`there` for instances of one contract."""
        executor = contract.executor
        x, y, _ = self._world.pose(agent)
        if isinstance(executor, Enter):
            here, areas = (x, y), self._areas
            return [here in (areas.get(i) or self._area(agent, i, executor)).cells for i in instances]
        text = self._texts.get((x, y)) or text_of((x, y))
        return [target == text if target else None for _, target in instances]

    def distance(self, agent: int, instance: Instance) -> int:
        """Primitives until the agent is where it can act, others making way; 0 where it need not go anywhere."""
        return self.distances(agent, self._contracts[instance.option], (instance,))[0]

    def distances(self, agent: int, contract: Contract[Any], instances: Sequence[Instance]) -> list[int]:
        """`distance` to instances of one contract."""
        executor = contract.executor
        if not isinstance(executor, (Reach, Stand, Aim, Enter)):
            return [0] * len(instances)
        pose, field = self._grid.pose(self._world.pose(agent)), self._field(agent)
        if isinstance(executor, Aim):
            if executor.distances is not None and field is self._grid.open:
                return executor.distances(self._world, agent, instances)
            return [self._aimed(agent, instance, executor, pose, field)[0] for instance in instances]
        if isinstance(executor, Enter):
            areas = self._areas
            return [(areas.get(i) or self._area(agent, i, executor)).nearest(field)[1][pose] for i in instances]
        rows = self._table(executor, field).rows
        targets = [self._targets.get(target) for _, target in instances]
        if None in targets:
            targets = [self._target(instance) for instance in instances]
        return [FAR if target is None else rows[target][pose] for target in targets]

    def send(self, agent: int, turn: Turn, executor: _Travel) -> None:
        """Towards where the executor acts; there: turn, wait until ready, act."""
        walker, instance = turn.walker, turn.execution.instance
        steps, target, facing = self._way(agent, instance, executor, walker.pose, self._field(agent))
        if steps >= FAR:
            turn.execution = replace(turn.execution, failed=f"explicit:{NO_PATH}")
            return
        walker.target, walker.adjacent = target, isinstance(executor, Reach) and executor.adjacent
        arrived = steps == 0 or (facing != "" and self._grid.cell(walker.pose) == self._grid.targets[target])
        walker.wish = Wish.ACT if arrived else Wish.GO
        if isinstance(executor, Stand):
            turn.goal = (self._grid.targets[target],)
        elif isinstance(executor, Enter):
            turn.goal = self._area(agent, instance, executor).cells
            if arrived:  # There from the start: it ends with this step, whether others make it leave or not.
                walker.wish, turn.last = Wish.HOLD, True
        elif steps > 0:
            now = self._grid.facings[walker.pose % len(self._grid.facings)]
            turn.act, turn.acts_last = self._grid.motion.turns[now, facing or now][0], False
        elif isinstance(executor, Reach) or executor.ready(self._world, agent):
            turn.act = executor.primitive
        else:
            turn.acts_last = False

    def _way(self, agent: int, instance: Instance, executor: _Travel, pose: int, field: Field) -> _Way:
        if isinstance(executor, Aim):
            return self._aimed(agent, instance, executor, pose, field)
        if isinstance(executor, Enter):
            nearest, steps = (self._areas.get(instance) or self._area(agent, instance, executor)).nearest(field)
            return steps[pose], nearest[pose], ""
        target = self._target(instance)
        return _NOWHERE if target is None else (self._table(executor, field).rows[target][pose], target, "")

    def _table(self, executor: Reach | Stand, field: Field) -> Table:
        return field.beside if isinstance(executor, Reach) and executor.adjacent else field.on

    def _aimed(self, agent: int, instance: Instance, executor: Aim[Any], pose: int, field: Field) -> _Way:
        index, turns, rows = self._grid.target_index, self._grid.motion.turns, field.on.rows
        facing = self._grid.facings[pose % len(self._grid.facings)]
        for x, y, wanted in executor.poses(self._world, agent, instance):
            target = index.get((x, y))
            if target is not None:
                steps = rows[target][pose]
                if wanted and wanted != facing:
                    steps += turns.get((facing, wanted), _NO_TURN)[1]
                if steps < FAR:
                    return steps, target, wanted
        return _NOWHERE

    def _field(self, agent: int) -> Field:
        """The tables for an agent, agents that never move being closed cells."""
        closed = self._world.closed()
        if not self.still:
            return self._grid.field(closed) if closed else self._grid.open
        poses = (self._world.pose(seat) for seat in self.still if seat != agent and not self._world.away(seat))
        shut = {(pose.x, pose.y) for pose in poses}.union(closed)
        if self._narrowed is None or self._narrowed.closed != shut:
            self._narrowed = self._grid.field(shut)
        return self._narrowed

    def _target(self, instance: Instance) -> int | None:
        """Index of the target's cell, however it is written; None off the map. Raises ValueError for no cell."""
        known = self._targets.get(instance.target)
        return self._grid.target_index.get(cell_of(instance.target)) if known is None else known

    def _area(self, agent: int, instance: Instance, executor: Enter[Any]) -> _Area:
        known = self._areas.get(instance)
        if known is None:
            known = self._areas[instance] = _Area(executor.area(self._world, agent, instance), self._grid)
        return known
