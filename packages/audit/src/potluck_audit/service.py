"""The audit server: AuditService over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck.audit.v1.audit_service_pb2_grpc import AuditServiceServicer, add_AuditServiceServicer_to_server
from potluck.rpc.server import RunningServer, serve
from potluck_audit.audit import AuditRequest, run_audit
from potluck_audit.blame.investigation import Found, blamed
from potluck_audit.blame.wire import located_message, many_of, one_of, services_of
from potluck_audit.credit import Budget
from potluck_audit.crediting import CreditRequest, run_credit
from potluck_audit.errors import InvalidRequest
from potluck_audit.jobs import Done, Job, Jobs
from potluck_audit.progress import OnStage
from potluck_audit.results import curve_metrics, metric_message
from potluck_audit.verdict.gate import GateRequest, run_gate
from potluck_audit.verdict.wire import decoupling_message

SERVICE = "potluck.audit.v1.AuditService"

Context = grpc.aio.ServicerContext[Any, Any]


class AuditServicer(AuditServiceServicer):
    """Errors are raised as PotluckError and mapped by potluck.rpc."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def StartAudit(self, request: pb.StartAuditRequest, context: Context) -> pb.StartAuditResponse:
        asked = AuditRequest(
            run=Path(request.run),
            sets=tuple(request.sets),
            envs=tuple(request.services.envs),
            policy=request.services.policy,
            confidence=request.confidence or 0.95,
            report=request.report,
        )

        async def work(on_stage: OnStage, audit_id: str) -> Done:
            found = await run_audit(asked, on_stage, audit_id)
            metrics = [*found.results.metrics, *curve_metrics(found.results)]
            return Done(metrics, found.results_path, found.report_path)

        return pb.StartAuditResponse(audit_id=self._jobs.start(request.request_id, asked, work).audit_id)

    async def StartCredit(self, request: pb.StartCreditRequest, context: Context) -> pb.StartCreditResponse:
        asked = _credit_request(request.credit)

        async def work(on_stage: OnStage, audit_id: str) -> Done:
            found, written = await run_credit(asked, on_stage)
            return Done([metric for one in found for metric in (*one.metrics, *one.values)], written)

        return pb.StartCreditResponse(audit_id=self._jobs.start(request.request_id, asked, work).audit_id)

    async def StartGate(self, request: pb.StartGateRequest, context: Context) -> pb.StartGateResponse:
        asked = GateRequest(
            run=Path(request.run),
            envs=tuple(request.services.envs),
            policy=request.services.policy,
            rounds=tuple(request.rounds),
            checkpoints=request.checkpoints or GateRequest.checkpoints,
            episodes=request.episodes or GateRequest.episodes,
            baseline=request.baseline or GateRequest.baseline,
            confidence=request.confidence or GateRequest.confidence,
        )

        async def work(on_stage: OnStage, audit_id: str) -> Done:
            found, written = await run_gate(asked, on_stage)
            metrics = [m for one in found.checkpoints for m in one.metrics]
            return Done([*metrics, *found.references], written, None, decoupling_message(found))

        return pb.StartGateResponse(audit_id=self._jobs.start(request.request_id, asked, work).audit_id)

    async def StartBlame(self, request: pb.StartBlameRequest, context: Context) -> pb.StartBlameResponse:
        asked, services = many_of(request), services_of(request.locate.services)
        done: dict[str, Found] = {}

        async def work(on_stage: OnStage, audit_id: str) -> Done:
            found = await blamed(asked, services, on_stage, found=done)
            located = [located_message(one) for one in found.results.located]
            return Done([], found.written, located=located)

        job = self._jobs.start(request.request_id, (asked, services), work)
        return pb.StartBlameResponse(audit_id=job.audit_id)

    async def WatchAudit(self, request: pb.WatchAuditRequest, context: Context) -> AsyncIterator[pb.WatchAuditResponse]:
        job = self._jobs.get(request.audit_id)
        async for stage in job.watch():
            yield pb.WatchAuditResponse(stage=stage.name, done=stage.done, total=stage.total)
        last = pb.WatchAuditResponse(stage="failed" if job.error else "done", ended=True)
        if job.error:
            last.error.CopyFrom(job.error.status())
        yield last

    async def CancelAudit(self, request: pb.CancelAuditRequest, context: Context) -> pb.CancelAuditResponse:
        job = self._jobs.get(request.audit_id)
        job.cancel()
        await job.wait()
        return pb.CancelAuditResponse(cancelled=job.outcome is None)

    async def ResumeAudit(self, request: pb.ResumeAuditRequest, context: Context) -> pb.ResumeAuditResponse:
        return pb.ResumeAuditResponse(audit_id=self._jobs.resume(request.audit_id).audit_id)

    async def GetAudit(self, request: pb.GetAuditRequest, context: Context) -> pb.GetAuditResponse:
        done = _done(self._jobs.get(request.audit_id))
        reply = pb.GetAuditResponse(
            metrics=[metric_message(m) for m in done.metrics],
            report=str(done.report or ""),
            results=str(done.results or ""),
            located=done.located,
        )
        if done.decoupling is not None:
            reply.decoupling.CopyFrom(done.decoupling)
        return reply

    async def AttributeCredit(self, request: pb.AttributeCreditRequest, context: Context) -> pb.AttributeCreditResponse:
        (found,), _ = await run_credit(_credit_request(request), lambda *stage: None)
        return pb.AttributeCreditResponse(
            credits=[metric_message(m) for m in found.credits],
            empty_value=found.empty_value,
            team_value=found.team_value,
            errors=[metric_message(m) for m in found.errors],
            interactions=[metric_message(m) for m in found.interactions],
            method=found.method,
            coalitions=found.coalitions,
            orders=found.orders,
            notes=found.notes,
        )

    async def LocateError(self, request: pb.LocateErrorRequest, context: Context) -> pb.LocateErrorResponse:
        found = await blamed(one_of(request), services_of(request.services), lambda *stage: None, write=False)
        return located_message(found.results.located[0])


def _credit_request(request: pb.AttributeCreditRequest) -> CreditRequest:
    return CreditRequest(
        run=Path(request.run),
        envs=tuple(request.services.envs),
        policy=request.services.policy,
        set=request.set or CreditRequest.set,
        baselines=(request.baseline or "noop",),
        budget=Budget(request.budget or Budget.coalitions, request.seed),
        confidence=request.confidence or 0.95,
    )


def _done(job: Job) -> Done:
    if job.error:
        raise job.error
    if job.outcome is None:
        raise InvalidRequest("audit_id", f"audit {job.audit_id} has not ended", "follow it with WatchAudit")
    return job.outcome


async def start_server(bind: str, jobs: Jobs | None = None) -> RunningServer:
    """Serves audits on `bind` until stopped."""
    owned = jobs or Jobs()
    servicer = AuditServicer(owned)
    return await serve(
        lambda server: add_AuditServiceServicer_to_server(servicer, server),
        services=[SERVICE],
        bind=bind,
        on_drain=owned.cancel,
    )
