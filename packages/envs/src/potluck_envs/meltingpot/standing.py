"""Engine processes that stand at moments which are gone on from again and again, so that this costs a fork each.

The first two times a moment is gone to, its log is played again. The second time a copy is left standing there, from
which all later ones are forked. The least recently used of a few copies goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Protocol, Self, runtime_checkable

COPIES = 4
REMEMBERED = 256


@runtime_checkable
class Forking(Protocol):
    """A core that can be copied."""

    def fork(self) -> Self: ...

    def close(self) -> None: ...


class Standing:
    """Copies by the moment that they stand at."""

    def __init__(self, copies: int = COPIES) -> None:
        self._limit = copies
        self._copies: OrderedDict[Hashable, Forking] = OrderedDict()
        self._asked: OrderedDict[Hashable, None] = OrderedDict()

    def fork(self, moment: Hashable) -> Forking | None:
        """A core at the moment, or None where no copy stands there."""
        copy = self._copies.get(moment)
        if copy is None:
            return None
        self._copies.move_to_end(moment)
        return copy.fork()

    def arrived(self, moment: Hashable, core: object) -> None:
        """Tells that a core was brought to a moment by playing its log."""
        if not isinstance(core, Forking):
            return
        if moment in self._asked:
            self._copies[moment] = core.fork()
            del self._asked[moment]
        else:
            self._asked[moment] = None
        while len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        while len(self._copies) > self._limit:
            self._copies.popitem(last=False)[1].close()

    def forget(self, moment: Hashable) -> None:
        """Drops a copy, such as one that has died."""
        if copy := self._copies.pop(moment, None):
            copy.close()
