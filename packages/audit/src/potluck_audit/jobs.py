"""Audits under way: one task each, followed by any number of watchers, kept until the server ends."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from typing import NamedTuple

from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.audit import AuditOutcome, AuditRequest, run_audit
from potluck_audit.errors import InvalidRequest, UnknownAudit

_LOG = logging.getLogger("potluck.audit")


class Stage(NamedTuple):
    """What an audit is doing."""

    name: str
    done: int
    total: int


class Job:
    """One audit."""

    def __init__(self, audit_id: str, request: AuditRequest) -> None:
        self.audit_id = audit_id
        self.request = request
        self.outcome: AuditOutcome | None = None
        self.error: PotluckError | None = None
        self.stage = Stage("waiting", 0, 0)
        self._changed = asyncio.Condition()
        self._loop = asyncio.get_running_loop()

    @property
    def ended(self) -> bool:
        return self.outcome is not None or self.error is not None

    async def run(self, turn: asyncio.Semaphore) -> None:
        try:
            async with turn:
                self.outcome = await run_audit(self.request, self._on_stage, self.audit_id)
        except PotluckError as error:
            self.error = error
        except asyncio.CancelledError:
            self.error = PotluckError(Reason.DRAINING, "the audit server is ending", "start the audit again")
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


class Jobs:
    """All audits of a server."""

    def __init__(self, parallel: int = 2) -> None:
        self._jobs: dict[str, Job] = {}
        self._by_request: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(parallel)

    def start(self, request_id: str, request: AuditRequest) -> Job:
        """The same request id gets the same audit; with other contents it is refused."""
        if not request_id:
            raise InvalidRequest("request_id", "an audit needs a request id", "choose one, such as a random uuid")
        if known := self._by_request.get(request_id):
            if known.request != request:
                raise InvalidRequest(
                    "request_id", f"{request_id!r} already names another audit", "choose a new one for a new audit"
                )
            return known
        job = Job(uuid.uuid4().hex[:16], request)
        self._jobs[job.audit_id] = self._by_request[request_id] = job
        task = asyncio.create_task(job.run(self._turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def get(self, audit_id: str) -> Job:
        if audit_id not in self._jobs:
            raise UnknownAudit(audit_id)
        return self._jobs[audit_id]

    def cancel(self) -> None:
        """Ends what is under way; nothing half-written is left, since results are renamed into place."""
        for task in self._tasks:
            task.cancel()
