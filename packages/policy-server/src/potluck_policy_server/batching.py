"""Many clients, one scoring thread: requests queue up and are computed together where that helps.

- A request of `merge_below` decisions or more fills the machine by itself and is computed alone, so its bits do not
  depend on who else is asking. Smaller ones are merged, up to `max_batch` decisions.
- While a batch runs, requests pile up and merge by themselves. Only if several clients were active just now, a small
  request waits a moment for company; a lone client in lockstep never does.
- Clients take turns, request by request, so one that sends a thousand does not keep the others waiting (queueing.py).
- The queue is bounded: what finds no place is refused with the seconds after which to try again, or, if it is patient,
  waits outside. A request whose deadline has passed is dropped before work starts, and one whose client left frees its
  place at once.
- One bad request of a merged batch fails alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from potluck_policy_server.backbones.base import Backbone, Query, Scores
from potluck_policy_server.errors import DeadlinePassed, PolicyServerError, QueueFull
from potluck_policy_server.queueing import FairQueue

_SOONEST_S, _LATEST_S = 0.05, 10.0
"""Bounds of the hint when to try again."""

log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """A decision's rendering and its policy."""

    prepared: Any
    scores: Scores


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Limits of the queue."""

    max_batch: int = 512
    max_queue: int = 4096
    """Decisions that may wait."""
    merge_below: int = 8
    window_s: float = 0.0015
    active_s: float = 0.05
    """A client counts as active this long after a request."""


@dataclass(slots=True)
class Stats:
    """What the queue did."""

    batches: int = 0
    requests: int = 0
    decisions: int = 0
    waits: int = 0
    expired: int = 0
    refused: int = 0
    """Requests without a place: newcomers, and those that gave theirs to a client with less."""
    held_back: int = 0
    """Times that a patient request found no place and waited outside."""
    withdrawn: int = 0
    """Requests whose client left while they waited."""


@dataclass(slots=True, eq=False)
class _Request:
    client: str
    queries: Sequence[Query]
    deadline: float | None
    future: asyncio.Future[list[Answer]] = field(repr=False)


class Batcher:
    """The queue before the scoring thread."""

    def __init__(self, backbone: Backbone, thread: ThreadPoolExecutor, options: BatchOptions) -> None:
        self._backbone = backbone
        self._thread = thread
        self._options = options
        self._queue: FairQueue[_Request] = FairQueue(options.max_queue)
        self._outside: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Patient requests without a place: decisions, and what wakes them."""
        self._rate = 0.0
        """Decisions per second, smoothed."""
        self._arrived = asyncio.Event()
        self._seen: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self.stats = Stats()

    @property
    def waiting(self) -> int:
        """Decisions in the queue."""
        return self._queue.waiting

    def start(self) -> None:
        """Begins to serve the queue."""
        self._task = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """Ends; requests that still wait are cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for request in self._queue.clear():
            request.future.cancel()
        for _, woken in self._outside:
            woken.cancel()

    async def submit(
        self, queries: Sequence[Query], client: str, deadline: float | None, patient: bool = False
    ) -> list[Answer]:
        """Waits for the answers, in order.

        `deadline` is in the loop's time. Without a place in the queue a patient request waits for one; any other is
        refused with QueueFull. Raises DeadlinePassed where the work was not begun in time.
        """
        while True:
            try:
                return await self._once(queries, client, deadline)
            except QueueFull:
                if not patient or len(queries) > self._options.max_queue:
                    self.stats.refused += 1
                    raise
            self.stats.held_back += 1
            await self._wait_outside(len(queries), deadline)

    async def _once(self, queries: Sequence[Query], client: str, deadline: float | None) -> list[Answer]:
        loop = asyncio.get_running_loop()
        self._seen[client] = loop.time()
        request = _Request(client, queries, deadline, loop.create_future())
        away = self._queue.push(request)
        if away is None:
            raise self._full()
        for one in away:
            if not one.future.done():
                one.future.set_exception(self._full())
        self._arrived.set()
        try:
            return await request.future
        except asyncio.CancelledError:
            if self._queue.withdraw(request):
                self.stats.withdrawn += 1
                self._let_in()
            raise

    async def _wait_outside(self, size: int, deadline: float | None) -> None:
        place = size, asyncio.get_running_loop().create_future()
        self._outside.append(place)
        try:
            async with asyncio.timeout_at(deadline):
                await place[1]
        except TimeoutError:
            self.stats.expired += 1
            raise DeadlinePassed() from None
        finally:
            if place in self._outside:
                self._outside.remove(place)
            self._let_in()  # a place that was meant for one who has left is the next one's

    def _let_in(self, at_least: int = 0) -> None:
        """Wakes those outside for whom there is room, and `at_least` so many: they may be the ones to be given way."""
        room = self._queue.room
        while self._outside and (self._outside[0][0] <= room or at_least > 0):
            at_least -= 1
            size, woken = self._outside.popleft()
            room -= size
            if not woken.done():
                woken.set_result(None)

    def _full(self) -> QueueFull:
        seconds = self.waiting / self._rate if self._rate else _SOONEST_S
        return QueueFull(self.waiting, self._options.max_queue, min(max(seconds, _SOONEST_S), _LATEST_S))

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            if self._worth_waiting(loop.time()):
                self.stats.waits += 1
                await asyncio.sleep(self._options.window_s)
            batch = self._take(loop.time())
            if batch:
                await self._compute(loop, batch)

    async def _compute(self, loop: asyncio.AbstractEventLoop, batch: list[_Request]) -> None:
        began = loop.time()
        outcomes = await loop.run_in_executor(self._thread, self._run, batch)
        rate = sum(len(request.queries) for request in batch) / max(loop.time() - began, 1e-6)
        self._rate = 0.9 * self._rate + 0.1 * rate if self._rate else rate
        for request, outcome in zip(batch, outcomes, strict=True):
            if request.future.done():
                continue
            if isinstance(outcome, Exception):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)

    def _worth_waiting(self, now: float) -> bool:
        since = now - self._options.active_s
        self._seen = {client: seen for client, seen in self._seen.items() if seen >= since}
        first = self._queue.first()
        if len(self._seen) < 2 or first is None:
            return False
        return len(first.queries) < self._options.merge_below and self.waiting < self._options.merge_below

    def _take(self, now: float) -> list[_Request]:
        batch: list[_Request] = []
        size = 0
        while (request := self._queue.first()) is not None:
            big = len(request.queries) >= self._options.merge_below
            if batch and (big or size + len(request.queries) > self._options.max_batch):
                break
            self._queue.pop()
            if self._dropped(request, now):
                continue
            batch.append(request)
            size += len(request.queries)
            if big:
                break
        if not self._queue:
            self._arrived.clear()
        self._let_in(at_least=1)
        self.stats.batches += bool(batch)
        self.stats.requests += len(batch)
        self.stats.decisions += size
        return batch

    def _dropped(self, request: _Request, now: float) -> bool:
        if request.future.done():  # the client went away
            return True
        if request.deadline is not None and request.deadline <= now:
            self.stats.expired += 1
            request.future.set_exception(DeadlinePassed())
            return True
        return False

    def _run(self, batch: Sequence[_Request]) -> list[list[Answer] | Exception]:
        """In the scoring thread."""
        rendered = [self._prepare(request.queries) for request in batch]
        good = [one for part in rendered if isinstance(part, list) for one in part]
        try:
            scores = self._backbone.score(good) if good else []
        except Exception as error:  # the servicer's edge hides and logs it
            return [part if isinstance(part, Exception) else error for part in rendered]
        outcomes: list[list[Answer] | Exception] = []
        start = 0
        for part in rendered:
            if isinstance(part, Exception):
                outcomes.append(part)
                continue
            outcomes.append(_answers(part, scores[start : start + len(part)]))
            start += len(part)
        return outcomes

    def _prepare(self, queries: Sequence[Query]) -> list[Any] | Exception:
        try:
            return [self._backbone.prepare(query) for query in queries]
        except Exception as error:  # it is this request's answer; the others go on
            return error


def _answers(prepared: Sequence[Any], scores: Sequence[Scores | PolicyServerError]) -> list[Answer] | Exception:
    """A request's answers, or the first error among its decisions."""
    answers: list[Answer] = []
    for one, outcome in zip(prepared, scores, strict=True):
        if isinstance(outcome, PolicyServerError):
            return outcome
        answers.append(Answer(one, outcome))
    return answers
