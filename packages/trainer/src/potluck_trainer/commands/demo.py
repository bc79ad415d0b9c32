"""`potluck demo`: the main job end to end, with all services as processes of their own."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from potluck.audit.v1.audit_service_pb2 import GetAuditRequest, Services, StartAuditRequest, WatchAuditRequest
from potluck.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import from_status, typed_errors
from potluck_trainer.commands.eval import judge
from potluck_trainer.commands.train import check_start, train_with
from potluck_trainer.config import RunConfig
from potluck_trainer.evaluation import Judgement
from potluck_trainer.intervals import apart
from potluck_trainer.progress import Reporter, clock
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.services import audit_server, running, with_services
from potluck_trainer.session import open_session
from potluck_trainer.teams import lineups

AUDIT_TIMEOUT_S = 1800.0


async def demo(config: RunConfig, reporter: Reporter) -> None:
    """Trains (or goes on with an unfinished demo), evaluates, audits, and sums up."""
    run = RunFolder(config.run_dir)
    with run.claimed():
        resume = run.begun
        check_start(config, run, resume)
        await _demo(config, run, resume, reporter)


async def _demo(config: RunConfig, run: RunFolder, resume: bool, reporter: Reporter) -> None:
    started = time.monotonic()
    logs, timeout_s, threads = run.path / "logs", config.services.start_timeout_s, config.services.threads
    async with with_services(config, logs) as ready, running([audit_server()], logs, timeout_s, threads) as (audit,):
        reporter.say(f"env server {ready.envs}, policy server {ready.policy}, audit server {audit.address}")
        async with open_session(ready) as session:
            await train_with(session, resume, reporter, "the same command, which then evaluates and audits")
            trained = time.monotonic()
            names = ["trained", "frozen", "uniform", *(f"solo/{agent}" for agent in session.agents)]
            best = run.checkpoints.best()
            judgements = await judge(session, run, best, lineups(names, run, best), reporter)
        judged = time.monotonic()
        report = await audit_run(audit.address, run, Services(envs=ready.env_addresses, policy=ready.policy), reporter)
    ended = time.monotonic()
    reporter.say(summary(judgements, run, report))
    reporter.say(
        f"training {clock(trained - started)}, evaluation {clock(judged - trained)}, audit {clock(ended - judged)}, "
        f"in all {clock(ended - started)}"
    )


async def audit_run(address: str, run: RunFolder, services: Services, reporter: Reporter) -> Path:
    """Has the audit server audit a run; returns the report's path."""
    channel = connect(address)
    try:
        await wait_ready(channel, address)
        stub = AuditServiceStub(channel)
        with typed_errors(f"audit server {address}"):
            begun = await stub.StartAudit(
                StartAuditRequest(
                    request_id=uuid.uuid4().hex, run=str(run.path.resolve()), services=services, report=True
                )
            )
            reporter.begin("audit", 0)
            async for seen in stub.WatchAudit(WatchAuditRequest(audit_id=begun.audit_id), timeout=AUDIT_TIMEOUT_S):
                if seen.HasField("error") and seen.error.code:
                    raise from_status(seen.error)
            reply = await stub.GetAudit(GetAuditRequest(audit_id=begun.audit_id))
    finally:
        await channel.close()
    return Path(reply.report) if reply.report else run.path / "report.html"


def summary(judgements: list[Judgement], run: RunFolder, report: Path) -> str:
    """What the demo showed."""
    by_name = {judgement.team: judgement.interval for judgement in judgements}
    trained, frozen = by_name["trained"], by_name["frozen"]
    verdict = "the intervals are apart" if apart(trained, frozen) else "the intervals overlap: nothing is shown"
    return f"trained {trained}, frozen {frozen}: {verdict}\nrun: {run.path}\nreport: {report}"
