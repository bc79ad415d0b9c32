"""A run's gate from its folder to its verdict: choose checkpoints, play them, judge, write."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck_audit.counterfactual.playing import Players
from potluck_audit.errors import InvalidRequest
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import Metric
from potluck_audit.progress import OnStage
from potluck_audit.records import load_run
from potluck_audit.records.run import TRAIN
from potluck_audit.verdict.checkpoints import pick, read_checkpoints
from potluck_audit.verdict.decoupling import decoupling
from potluck_audit.verdict.evaluation import play_checkpoints, run_setting
from potluck_audit.verdict.rule import MARGIN
from potluck_audit.verdict.saved import write_verdict
from potluck_audit.verdict.verdict import Decoupling

REFERENCE_SET = "checkpoint/reference"


@dataclass(frozen=True)
class GateRequest:
    """What to judge and with what."""

    run: Path
    envs: tuple[str, ...] = ()
    policy: str = ""
    rounds: tuple[int, ...] = ()
    """Checkpoints after these rounds; empty = `checkpoints` of them, spread evenly."""
    checkpoints: int = 5
    episodes: int = 12
    baseline: str = "noop"
    confidence: float = 0.95
    margin: float = MARGIN

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidRequest("confidence", f"{self.confidence} is no confidence", "give one such as 0.95")
        if not 0 < self.margin < 1:
            raise InvalidRequest("margin", f"{self.margin} is no share", "give one such as 0.25")


async def run_gate(request: GateRequest, on_stage: OnStage) -> tuple[Decoupling, Path]:
    """The verdict, and the file that it was written to. Raises AuditError and what servers refuse."""
    run = await asyncio.to_thread(load_run, request.run, [TRAIN])
    saved = pick(read_checkpoints(run.path), request.rounds, request.checkpoints)
    setting = run_setting(run, request.episodes)
    async with AsyncExitStack() as stack:
        players = None
        if request.envs:
            envs = await stack.enter_async_context(EnvPool(request.envs))
            policy = await stack.enter_async_context(PolicyClient(request.policy)) if request.policy else None
            players = Players(envs, policy, run.path)
        plays, references = await play_checkpoints(setting, saved, run.path, players, on_stage, request.baseline)
    intervals = Intervals(request.confidence)
    found = await asyncio.to_thread(decoupling, plays, intervals, 1 - request.confidence, request.margin)
    rows = [
        Metric("return", REFERENCE_SET, intervals.mean(list(one.returns)), key=one.name, unit=setting.unit)
        for one in references
    ]
    found = replace(found, references=rows)
    return found, await asyncio.to_thread(write_verdict, found, run.path)
