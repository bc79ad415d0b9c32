"""Who waits for the scoring thread: a line per client, clients take turns, and the longest line gives way.

A queue that is full belongs to whoever flooded it. So a newcomer without a place takes that of the newest request in
the longest line, if that line stays at least as long as the newcomer's own (buffer stealing: McKenney, Stochastic
Fairness Queueing, 1990); else it is the newcomer who is refused. Lines are measured in decisions.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar


class Waiting(Protocol):
    """A request in a line."""

    @property
    def client(self) -> str: ...

    @property
    def queries(self) -> Sequence[Any]: ...


R = TypeVar("R", bound=Waiting)


class FairQueue(Generic[R]):
    """Requests that wait, at most `limit` decisions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: OrderedDict[str, deque[R]] = OrderedDict()
        """By client, the one whose turn it is first; none is empty."""
        self._sizes: Counter[str] = Counter()
        self.waiting = 0
        """Decisions in all lines."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def room(self) -> int:
        """Decisions for which there is a place without anybody giving way."""
        return self._limit - self.waiting

    def push(self, request: R) -> list[R] | None:
        """Puts a request at the end of its client's line; returns those that gave way, or None if it was refused."""
        away = self._to_give_way(request)
        if away is None:
            return None
        for one in away:
            self._remove(one)
        self._lines.setdefault(request.client, deque()).append(request)
        self._count(request, 1)
        return away

    def first(self) -> R | None:
        """Whose turn it is."""
        return next(iter(self._lines.values()))[0] if self._lines else None

    def pop(self) -> R:
        """Takes the first request out; its client goes to the back of the round."""
        client, line = next(iter(self._lines.items()))
        request = line[0]
        self._remove(request)
        if client in self._lines:
            self._lines.move_to_end(client)
        return request

    def withdraw(self, request: R) -> bool:
        """Takes a request out of turn; False if it does not wait any more."""
        if request not in self._lines.get(request.client, ()):
            return False
        self._remove(request)
        return True

    def clear(self) -> list[R]:
        """Takes everything out."""
        everything = [request for line in self._lines.values() for request in line]
        self._lines.clear()
        self._sizes.clear()
        self.waiting = 0
        return everything

    def _to_give_way(self, request: R) -> list[R] | None:
        missing = len(request.queries) - self.room
        if missing <= 0:
            return []
        mine = self._sizes[request.client] + len(request.queries)
        away: list[R] = []
        sizes, ends = self._sizes.copy(), {client: len(line) for client, line in self._lines.items()}
        while missing > 0:
            longest = max(ends, key=lambda client: sizes[client], default=request.client)
            if longest == request.client or not ends[longest]:
                return None
            ends[longest] -= 1
            last = self._lines[longest][ends[longest]]
            if sizes[longest] - len(last.queries) < mine:
                return None
            sizes[longest] -= len(last.queries)
            missing -= len(last.queries)
            away.append(last)
        return away

    def _remove(self, request: R) -> None:
        line = self._lines[request.client]
        line.remove(request)
        self._count(request, -1)
        if not line:
            del self._lines[request.client]
            del self._sizes[request.client]

    def _count(self, request: R, sign: int) -> None:
        self._sizes[request.client] += sign * len(request.queries)
        self.waiting += sign * len(request.queries)
