"""The audit server: AuditService over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck.audit.v1.audit_service_pb2_grpc import AuditServiceServicer, add_AuditServiceServicer_to_server
from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.rpc.server import RunningServer, serve
from potluck_audit.audit import AuditRequest
from potluck_audit.counterfactual.coalitions import Players
from potluck_audit.counterfactual.values import recorded_values
from potluck_audit.credit import attribute
from potluck_audit.errors import InvalidRequest, Unsupported
from potluck_audit.intervals import Intervals
from potluck_audit.jobs import Jobs
from potluck_audit.recorded import episode_set
from potluck_audit.records import load_run
from potluck_audit.results import curve_metrics, metric_message

SERVICE = "potluck.audit.v1.AuditService"

Context = grpc.aio.ServicerContext[Any, Any]


class AuditServicer(AuditServiceServicer):
    """Errors are raised as PotluckError and mapped by potluck.rpc."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def StartAudit(self, request: pb.StartAuditRequest, context: Context) -> pb.StartAuditResponse:
        job = self._jobs.start(
            request.request_id,
            AuditRequest(
                run=Path(request.run),
                sets=tuple(request.sets),
                envs=tuple(request.services.envs),
                policy=request.services.policy,
                confidence=request.confidence or 0.95,
                report=request.report,
            ),
        )
        return pb.StartAuditResponse(audit_id=job.audit_id)

    async def WatchAudit(self, request: pb.WatchAuditRequest, context: Context) -> AsyncIterator[pb.WatchAuditResponse]:
        job = self._jobs.get(request.audit_id)
        async for stage in job.watch():
            yield pb.WatchAuditResponse(stage=stage.name, done=stage.done, total=stage.total)
        last = pb.WatchAuditResponse(stage="failed" if job.error else "done", ended=True)
        if job.error:
            last.error.CopyFrom(job.error.status())
        yield last

    async def GetAudit(self, request: pb.GetAuditRequest, context: Context) -> pb.GetAuditResponse:
        job = self._jobs.get(request.audit_id)
        if job.error:
            raise job.error
        if job.outcome is None:
            raise InvalidRequest("audit_id", f"audit {job.audit_id} has not ended", "follow it with WatchAudit")
        results, written, report = job.outcome
        metrics = [*results.metrics, *curve_metrics(results)]
        return pb.GetAuditResponse(
            metrics=[metric_message(m) for m in metrics], report=str(report or ""), results=str(written)
        )

    async def AttributeCredit(self, request: pb.AttributeCreditRequest, context: Context) -> pb.AttributeCreditResponse:
        if not request.services.envs:
            raise InvalidRequest("services.envs", "credit is found by playing coalitions", "name an env server")
        run = await asyncio.to_thread(load_run, request.run, [request.set])
        team = episode_set(run, request.set)
        baseline = request.baseline or "noop"
        async with EnvPool(tuple(request.services.envs)) as envs:
            policy = PolicyClient(request.services.policy) if request.services.policy else None
            try:
                players = Players(envs, policy, run.path, greedy=run.greedy)
                values = recorded_values(team, {}, baseline)
                found = await attribute(values, team, players, Intervals(), lambda *stage: None)
            finally:
                if policy is not None:
                    await policy.close()
        return pb.AttributeCreditResponse(
            credits=[metric_message(m) for m in found.credits],
            empty_value=found.empty_value,
            team_value=found.team_value,
        )

    async def LocateError(self, request: pb.LocateErrorRequest, context: Context) -> pb.LocateErrorResponse:
        raise Unsupported(
            "finding the first decisive error is not built yet", "look through the replay of the audit's report"
        )


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
