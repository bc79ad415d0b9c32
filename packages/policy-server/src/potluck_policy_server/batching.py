"""Many clients, one scoring thread: requests queue up and are computed together where that helps.

- A request of `merge_below` decisions or more fills the machine by itself and is computed alone, so its bits do not
  depend on who else is asking. Smaller ones are merged, up to `max_batch` decisions.
- While a batch runs, requests pile up and merge by themselves. Only if several clients were active just now, a small
  request waits a moment for company; a lone client in lockstep never does.
- Clients take turns, request by request, so one that sends a thousand does not keep the others waiting.
- The queue is bounded, a request whose deadline has passed is dropped before work starts, and one whose client left
  frees its place at once.
- One bad request of a merged batch fails alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from potluck_policy_server.backbones.base import Backbone, Query, Scores
from potluck_policy_server.errors import DeadlinePassed, Overloaded, PolicyServerError

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
    withdrawn: int = 0
    """Requests whose client left while they waited."""


@dataclass(slots=True, eq=False)
class _Request:
    queries: Sequence[Query]
    deadline: float | None
    future: asyncio.Future[list[Answer]] = field(repr=False)


class Batcher:
    """The queue before the scoring thread."""

    def __init__(self, backbone: Backbone, thread: ThreadPoolExecutor, options: BatchOptions) -> None:
        self._backbone = backbone
        self._thread = thread
        self._options = options
        self._queues: OrderedDict[str, deque[_Request]] = OrderedDict()
        """By client, the one whose turn it is first; none is empty."""
        self._arrived = asyncio.Event()
        self._seen: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self.waiting = 0
        self.stats = Stats()

    def start(self) -> None:
        """Begins to serve the queue."""
        self._task = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """Ends; requests that still wait are cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for queue in self._queues.values():
            for request in queue:
                request.future.cancel()

    async def submit(self, queries: Sequence[Query], client: str, deadline: float | None) -> list[Answer]:
        """Waits for the answers, in order. `deadline` is in the loop's time."""
        if self.waiting + len(queries) > self._options.max_queue:
            self.stats.refused += 1
            message = f"{self.waiting} decisions wait already, the queue holds {self._options.max_queue}"
            raise Overloaded(message, "try again in a moment, or start more policy servers")
        loop = asyncio.get_running_loop()
        self._seen[client] = loop.time()
        request = _Request(queries, deadline, loop.create_future())
        self._queues.setdefault(client, deque()).append(request)
        self.waiting += len(queries)
        self._arrived.set()
        try:
            return await request.future
        except asyncio.CancelledError:
            self._withdraw(client, request)
            raise

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
        outcomes = await loop.run_in_executor(self._thread, self._run, batch)
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
        if len(self._seen) < 2 or not self._queues:
            return False
        first = next(iter(self._queues.values()))[0]
        return len(first.queries) < self._options.merge_below and self.waiting < self._options.merge_below

    def _take(self, now: float) -> list[_Request]:
        batch: list[_Request] = []
        size = 0
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            request = queue[0]
            big = len(request.queries) >= self._options.merge_below
            if batch and (big or size + len(request.queries) > self._options.max_batch):
                break
            self._pop(client, request)
            if client in self._queues:
                self._queues.move_to_end(client)
            if self._dropped(request, now):
                continue
            batch.append(request)
            size += len(request.queries)
            if big:
                break
        if not self._queues:
            self._arrived.clear()
        self.stats.batches += bool(batch)
        self.stats.requests += len(batch)
        self.stats.decisions += size
        return batch

    def _pop(self, client: str, request: _Request) -> None:
        queue = self._queues[client]
        queue.remove(request)
        self.waiting -= len(request.queries)
        if not queue:
            del self._queues[client]

    def _withdraw(self, client: str, request: _Request) -> None:
        if request in self._queues.get(client, ()):
            self._pop(client, request)
            self.stats.withdrawn += 1

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
