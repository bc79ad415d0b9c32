"""Long work under way: one task each, followed by any number of watchers, cancelled and resumed, kept until the server
ends.

What a job played lies on disk, so that a resumed one goes on where it was, also in another server: there the same
request, started again, finds it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.errors import InvalidRequest, UnknownAudit
from potluck_audit.metrics.metric import Metric
from potluck_audit.progress import OnStage

_LOG = logging.getLogger("potluck.audit")


class Stage(NamedTuple):
    """What a job is doing."""

    name: str
    done: int
    total: int


class Done(NamedTuple):
    """What a job found."""

    metrics: Sequence[Metric]
    results: Path | None
    report: Path | None = None
    decoupling: pb.Decoupling | None = None
    located: Sequence[pb.LocateErrorResponse] = ()


Work = Callable[[OnStage, str], Awaitable[Done]]
"""Given whom to tell and the job's name."""


class Job:
    """One audit, credit, gate or blame."""

    def __init__(self, audit_id: str, request: object, work: Work) -> None:
        self.audit_id = audit_id
        self.request = request
        self.outcome: Done | None = None
        self.error: PotluckError | None = None
        self.stage = Stage("waiting", 0, 0)
        self.task: asyncio.Task[None] | None = None
        self._work = work
        self._cancelled = False
        self._changed = asyncio.Condition()
        self._loop = asyncio.get_running_loop()

    @property
    def ended(self) -> bool:
        return self.outcome is not None or self.error is not None

    def begin(self, turn: asyncio.Semaphore) -> asyncio.Task[None]:
        """Starts it, or starts it again after an error."""
        self.error, self._cancelled, self.stage = None, False, Stage("waiting", 0, 0)
        self.task = asyncio.create_task(self._run(turn))
        return self.task

    def cancel(self) -> None:
        """Ends it with CANCELLED, unless it has ended. What it played is kept."""
        if not self.ended and self.task is not None:
            self._cancelled = True
            self.task.cancel()

    async def _run(self, turn: asyncio.Semaphore) -> None:
        try:
            async with turn:
                self.outcome = await self._work(self._on_stage, self.audit_id)
        except PotluckError as error:
            self.error = error
        except asyncio.CancelledError:
            self.error = self._why()
            if not self._cancelled:
                raise
        except Exception:
            error_id = uuid.uuid4().hex[:12]
            _LOG.exception("audit %s failed, error id %s", self.audit_id, error_id)
            cure = "find the error id in the audit server's log"
            self.error = PotluckError(
                Reason.INTERNAL, f"the audit failed, error id {error_id}", cure, error_id=error_id
            )
        finally:
            await asyncio.shield(self._wake())

    def _why(self) -> PotluckError:
        if self._cancelled:
            cure = "ResumeAudit goes on where it was"
            return PotluckError(Reason.CANCELLED, f"audit {self.audit_id} was cancelled", cure)
        return PotluckError(Reason.DRAINING, "the audit server is ending", "start the audit again")

    def _on_stage(self, name: str, done: int, total: int) -> None:
        """Called from the loop and from worker threads."""
        self._loop.call_soon_threadsafe(self._advance, Stage(name, done, total))

    def _advance(self, stage: Stage) -> None:
        self.stage = stage
        self._waker = asyncio.ensure_future(self._wake())

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def watch(self) -> AsyncIterator[Stage]:
        """The stage now and whenever it changes, until the audit ends."""
        seen: Stage | None = None
        while not self.ended:
            async with self._changed:
                while not self.ended and self.stage == seen:
                    await self._changed.wait()
            if self.stage != seen:
                seen = self.stage
                yield seen

    async def wait(self) -> None:
        """Until it has ended."""
        async with self._changed:
            while not self.ended:
                await self._changed.wait()


class Jobs:
    """All jobs of a server."""

    def __init__(self, parallel: int = 2) -> None:
        self._jobs: dict[str, Job] = {}
        self._by_request: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(parallel)

    def start(self, request_id: str, request: object, work: Work) -> Job:
        """The same request id gets the same job; with other contents it is refused."""
        if not request_id:
            raise InvalidRequest("request_id", "an audit needs a request id", "choose one, such as a random uuid")
        if known := self._by_request.get(request_id):
            if known.request != request:
                raise InvalidRequest(
                    "request_id", f"{request_id!r} already names another audit", "choose a new one for a new audit"
                )
            return known
        job = Job(uuid.uuid4().hex[:16], request, work)
        self._jobs[job.audit_id] = self._by_request[request_id] = job
        self._begin(job)
        return job

    def get(self, audit_id: str) -> Job:
        if audit_id not in self._jobs:
            raise UnknownAudit(audit_id)
        return self._jobs[audit_id]

    def resume(self, audit_id: str) -> Job:
        """Begins a job again that ended with an error; one under way, or done, stays as it is."""
        job = self.get(audit_id)
        if job.error is not None:
            self._begin(job)
        return job

    def cancel(self) -> None:
        """Ends what is under way; nothing half-written is left, since results are renamed into place."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, job: Job) -> None:
        task = job.begin(self._turn)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
