"""How executors that go somewhere expand: how far it is, where to, and what to play there.

Distances take everybody else to make way, but agents that never move (`still`) and cells that are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from potluck_optionlib.contracts import NO_PATH, Aim, Contract, Enter, Reach, Stand
from potluck_optionlib.executions import Turn
from potluck_optionlib.game import Instance
from potluck_optionlib.planners import FAR, Field, Grid, Wish
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


Outset: TypeAlias = tuple[int, Field]
_Sender: TypeAlias = Callable[[int, Turn, Instance, Field], bool]
"""Says for an agent's turn where its option's executor leads; False where there is no way."""
_GO, _ACT, _HOLD = Wish.GO, Wish.ACT, Wish.HOLD
_NOWHERE: _Way = (FAR, -1, "")
_NO_TURN = ("", FAR)


class Expansion:
    """The executors of one running game."""

    def __init__(self, world: World, contracts: Mapping[str, Contract[Any]], grid: Grid) -> None:
        self._world, self._contracts, self._grid = world, contracts, grid
        self._areas: dict[Instance, _Area] = {}
        self._senders = {name: self._sender(contract.executor) for name, contract in contracts.items()}
        self._targets = {text_of(cell): i for cell, i in grid.target_index.items()}
        self._texts = {cell: text_of(cell) for cell in grid.cells}
        self.still: tuple[int, ...] = ()
        """Agents that never move."""
        self._narrowed: Field | None = None
        """The tables around them: a grid drops what no game holds, and they are dear to make."""

    def there(self, agent: int, instance: Instance) -> bool | None:
        """Is the agent in the instance's area, or on its target? None where there is neither."""
        executor = self._contracts[instance.option].executor
        x, y, _ = self._world.pose(agent)
        if isinstance(executor, Enter):
            return (x, y) in (self._areas.get(instance) or self._area(agent, instance, executor)).cells
        if not instance.target:
            return None
        return instance.target == (self._texts.get((x, y)) or text_of((x, y)))

    def distance(self, agent: int, instance: Instance) -> int:
        """Primitives until the agent is where it can act, others making way; 0 where it need not go anywhere."""
        return self.distances(agent, self._contracts[instance.option], (instance,), self.outset(agent))[0]

    def outset(self, agent: int) -> Outset:
        """Where an agent's ways begin now: its pose and the tables for it."""
        return self._grid.pose(self._world.pose(agent)), self._field(agent)

    def distances(
        self, agent: int, contract: Contract[Any], instances: Sequence[Instance], outset: Outset
    ) -> list[int]:
        """`distance` to instances of one contract. `outset`: what `outset` says now."""
        executor = contract.executor
        if self._senders[contract.name] is None:
            return [0] * len(instances)
        pose, field = outset
        if isinstance(executor, Aim):
            if executor.distances is not None and field is self._grid.open:
                return executor.distances(self._world, agent, instances)
            return [self._aimed(agent, instance, executor, pose, field)[0] for instance in instances]
        if isinstance(executor, Enter):
            areas = self._areas
            return [(areas.get(i) or self._area(agent, i, executor)).nearest(field)[1][pose] for i in instances]
        rows, known = (
            (field.beside if isinstance(executor, Reach) and executor.adjacent else field.on).rows,
            self._targets,
        )
        try:
            return [rows[known[target]][pose] for _, target in instances]
        except KeyError:
            targets = [self._target(instance) for instance in instances]
            return [FAR if target is None else rows[target][pose] for target in targets]

    def common_field(self) -> Field | None:
        """The tables for everybody, where they are the same."""
        return None if self.still else self._field(-1)

    def send(self, agent: int, turn: Turn, field: Field | None) -> bool:
        """Towards where the executor acts; there: turn, wait until ready, act. False: it does not go anywhere.

        `field`: what `common_field` says now.
        """
        instance = turn.execution.instance
        send = self._senders[instance.option]
        if send is None:
            return False
        if not send(agent, turn, instance, field or self._field(agent)):
            turn.fail(f"explicit:{NO_PATH}")
        return True

    def _sender(self, executor: object) -> _Sender | None:
        if isinstance(executor, Reach):
            return partial(self._reach, executor)
        if isinstance(executor, Stand):
            return self._stand
        if isinstance(executor, Aim):
            return partial(self._aim, executor)
        return partial(self._enter, executor) if isinstance(executor, Enter) else None

    def _stand(self, agent: int, turn: Turn, instance: Instance, field: Field) -> bool:
        target = self._target(instance)
        steps = FAR if target is None else field.on.rows[target][turn.pose]
        if target is None or steps >= FAR:
            return False
        turn.target, turn.adjacent = target, False
        turn.wish = _GO if steps else _ACT
        turn.goal = (self._grid.targets[target],)
        return True

    def _enter(self, executor: Enter[Any], agent: int, turn: Turn, instance: Instance, field: Field) -> bool:
        area = self._areas.get(instance) or self._area(agent, instance, executor)
        nearest, steps = area.nearest(field)
        if steps[turn.pose] >= FAR:
            return False
        turn.target, turn.adjacent = nearest[turn.pose], False
        turn.goal = area.cells
        if steps[turn.pose]:
            turn.wish = _GO
        else:  # There from the start: it ends with this step, whether others make it leave or not.
            turn.wish, turn.last = _HOLD, True
        return True

    def _reach(self, executor: Reach, agent: int, turn: Turn, instance: Instance, field: Field) -> bool:
        target = self._target(instance)
        steps = FAR if target is None else field.table(executor.adjacent).rows[target][turn.pose]
        if target is None or steps >= FAR:
            return False
        turn.target, turn.adjacent = target, executor.adjacent
        if steps:
            turn.wish, turn.acts_last = _GO, False
        else:
            turn.wish, turn.act = _ACT, executor.primitive
        return True

    def _aim(self, executor: Aim[Any], agent: int, turn: Turn, instance: Instance, field: Field) -> bool:
        steps, target, facing = self._aimed(agent, instance, executor, turn.pose, field)
        if steps >= FAR:
            return False
        grid = self._grid
        turn.target, turn.adjacent = target, False
        arrived = steps == 0 or (facing != "" and grid.cell(turn.pose) == grid.targets[target])
        turn.wish = _ACT if arrived else _GO
        if steps:
            now = grid.facings[turn.pose % len(grid.facings)]
            turn.act, turn.acts_last = grid.motion.turns[now, facing or now][0], False
        elif executor.ready(self._world, agent):
            turn.act = executor.primitive
        else:
            turn.acts_last = False
        return True

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
