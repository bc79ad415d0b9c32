"""The command `potluck-audit`."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from potluck.rpc.errors import PotluckError
from potluck.rpc.logs import configure_logs
from potluck.rpc.server import run_until_signal
from potluck.telemetry import setup

if TYPE_CHECKING:
    from potluck_audit.audit import AuditOutcome

SERVICE = "potluck-audit"
CHECK_FAILED = 3


@dataclass(frozen=True)
class Serve:
    """Serve audits over gRPC.

    Prints "ready potluck-audit on host:port" when it can be used and logs to stderr. It reads run folders of this
    machine. Addresses other than loopback need TLS and a token (POTLUCK_TLS_CERT, POTLUCK_TLS_KEY, POTLUCK_TOKEN).
    """

    bind: str = "127.0.0.1:0"
    """host:port to listen on; port 0 takes a free one."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""


@dataclass(frozen=True)
class Run:
    """Audit one run folder and write its report.

    Measures what the run recorded: returns, options, idling, deliveries, hand-offs, visits. With --envs the report
    gains a replay; with --policy as well, solo values, synergy, necessity and Shapley credit are played and added.
    Writes RUN/audit/results.json and RUN/report.html. Exit status: 0, 1 for an error, 3 when a check failed.
    """

    run: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    envs: str = ""
    """Env servers, host:port, comma-separated."""
    policy: str = ""
    """Policy server, host:port."""
    sets: tuple[str, ...] = ()
    """Episode sets such as eval/trained; by default all."""
    confidence: float = 0.95
    """Of the intervals."""
    report: bool = True
    """Write report.html."""


Command = Annotated[Serve, tyro.conf.subcommand("serve")] | Annotated[Run, tyro.conf.subcommand("run")]


def main(args: list[str] | None = None) -> None:
    """Behaviour metrics, credit and reports of trained teams."""
    command = tyro.cli(Command, args=args, prog=SERVICE, description=main.__doc__)
    try:
        sys.exit(asyncio.run(_serve(command) if isinstance(command, Serve) else _run(command)))
    except PotluckError as error:
        print(f"{SERVICE}: {error.message} [{error.reason}]", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


async def _serve(command: Serve) -> int:
    from potluck_audit.service import start_server

    configure_logs(SERVICE, command.log_level)
    setup.configure(SERVICE)
    await run_until_signal(await start_server(command.bind), SERVICE)
    return 0


async def _run(command: Run) -> int:
    from potluck_audit.audit import AuditRequest, run_audit

    logging.basicConfig(level="WARNING", stream=sys.stderr)
    request = AuditRequest(
        run=command.run,
        sets=command.sets,
        envs=tuple(part.strip() for part in command.envs.split(",") if part.strip()),
        policy=command.policy,
        confidence=command.confidence,
        report=command.report,
    )
    setup.configure(SERVICE)
    try:
        outcome = await run_audit(request, _show_stage)
    finally:
        await asyncio.to_thread(setup.shutdown)
    _summarise(outcome)
    return CHECK_FAILED if outcome.results.failed else 0


def _show_stage(name: str, done: int, total: int) -> None:
    count = f" {done}/{total}" if total else ""
    print(f"{name}{count}", file=sys.stderr, flush=True)


def _summarise(outcome: AuditOutcome) -> None:
    results = outcome.results
    for metric in results.all("return", key=""):
        value, low, high, episodes = metric.estimate
        if value is None:
            print(f"{metric.set}: return undefined")
            continue
        between = f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""
        print(f"{metric.set}: {value:.2f}{between} {metric.unit}, {episodes} episodes")
    for check in results.failed:
        print(f"FAILED {check.set}: {check.name} ({check.detail})")
    print(f"results {outcome.results_path}")
    if outcome.report_path:
        print(f"report  {outcome.report_path}")
