"""Credit of one episode set from its run folder to `RUN/audit/credit.json`, against one baseline or several."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck_audit.counterfactual.coalitions import Players
from potluck_audit.counterfactual.values import recorded_values
from potluck_audit.credit import Budget, Credit, attribute
from potluck_audit.errors import CannotWrite, InvalidRequest
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.progress import OnStage
from potluck_audit.records import load_run
from potluck_audit.results import write_file

CREDIT_VERSION = 1


@dataclass(frozen=True)
class CreditRequest:
    """What to share and with what."""

    run: Path
    envs: tuple[str, ...] = ()
    policy: str = ""
    set: str = "eval/trained"
    baselines: tuple[str, ...] = ("noop",)
    budget: Budget = field(default_factory=Budget)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidRequest("confidence", f"{self.confidence} is no confidence", "give one such as 0.95")
        if not self.envs:
            raise InvalidRequest("services.envs", "credit is found by playing coalitions", "name an env server")
        if not self.baselines:
            raise InvalidRequest("baseline", "there is no baseline", "name one such as noop")


async def run_credit(request: CreditRequest, on_stage: OnStage) -> tuple[list[Credit], Path]:
    """The credits by baseline, and the file that they were written to. Raises AuditError and what servers refuse."""
    run = await asyncio.to_thread(load_run, request.run, [request.set])
    episodes = run.of(request.set)
    team = EpisodeSet(request.set, episodes, episodes[0].reward_unit)
    intervals, found = Intervals(request.confidence), []
    async with AsyncExitStack() as stack:
        envs = await stack.enter_async_context(EnvPool(request.envs))
        policy = await stack.enter_async_context(PolicyClient(request.policy)) if request.policy else None
        players = Players(envs, policy, run.path, greedy=run.greedy)
        for baseline in request.baselines:
            values = recorded_values(team, {}, baseline)
            found.append(await attribute(values, team, players, intervals, on_stage, request.budget))
    return found, await asyncio.to_thread(write_credit, found, request.set, run.path)


def write_credit(found: Sequence[Credit], set_name: str, run: Path) -> Path:
    """Raises CannotWrite."""
    data = {"schema_version": CREDIT_VERSION, "set": set_name, "baselines": [_json(one) for one in found]}
    try:
        text = json.dumps(data, allow_nan=False, ensure_ascii=False, indent=1)
        return write_file(run / "audit" / "credit.json", text + "\n")
    except OSError as error:
        raise CannotWrite(run, error.strerror or str(error)) from error


def _json(one: Credit) -> dict[str, Any]:
    return {
        "baseline": one.baseline,
        "method": one.method,
        "coalitions": one.coalitions,
        "orders": one.orders,
        "team_value": one.team_value,
        "empty_value": one.empty_value,
        "metrics": [_row(metric) for metric in (*one.metrics, *one.values)],
        "notes": list(one.notes),
    }


def _row(metric: Metric) -> dict[str, Any]:
    named = {"name": metric.name, "set": metric.set, "agent": metric.agent, "key": metric.key}
    return named | metric.estimate._asdict() | {"unit": metric.unit}
