"""The training loop: publish, play, learn, seal, commit; one round after another.

A round counts from the moment its checkpoint line is on disk, and until then leaves nothing behind that a resumed run
would see. Sealing and committing happen without a pause in between, so that an interrupt falls before or after. One
that comes while agents learn is heard between two microbatches.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial

from potluck.telemetry import names
from potluck.telemetry.context import start_span
from potluck_trainer.algorithms import registry
from potluck_trainer.algorithms.base import Advantages, Estimator, needs_coalitions
from potluck_trainer.checkpoints import Checkpoint
from potluck_trainer.coalition_play import with_credits
from potluck_trainer.errors import UpdateStopped
from potluck_trainer.learners.base import Sample, Team, UpdateReport
from potluck_trainer.metrics import round_metrics
from potluck_trainer.progress import Reporter
from potluck_trainer.publishing import Publisher
from potluck_trainer.records.reader import text_hashes
from potluck_trainer.records.rows import Context, Part, Texts, add_episode
from potluck_trainer.records.schema import TRAIN_SET
from potluck_trainer.records.writer import Patience, RecordWriter
from potluck_trainer.rollouts import Collected, collect, round_returns, samples_of
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.session import Session
from potluck_trainer.validation import validate

DISK_PATIENCE_S = 600.0


class Trainer:
    """One run of training."""

    def __init__(self, session: Session, run: RunFolder, team: Team, reporter: Reporter) -> None:
        self._session = session
        self._config = session.config
        self._run = run
        self._team = team
        self._stopping = threading.Event()
        self._reporter = reporter
        self._estimator: Estimator = registry.chosen(self._config.algorithm)
        self._publisher = Publisher(session.policy, run.name)
        self._patience = Patience(DISK_PATIENCE_S, reporter.say)
        self._writer = RecordWriter(run.path, self._patience)
        self._texts = Texts(text_hashes(run.path))
        self._context = Context(
            run.name, TRAIN_SET, 0, session.game, session.served.backbone, session.label_scheme,
            self._config.temperature,
        )  # fmt: skip

    async def run(self, start: int) -> Checkpoint:
        """Trains from round `start` to the last."""
        self._reporter.begin("training", self._config.rounds, start)
        workers = len(self._session.agents) if self._config.learner.parallel else 1
        with ThreadPoolExecutor(workers, thread_name_prefix="learner") as threads:
            try:
                for round_number in range(start, self._config.rounds):
                    await self._round(round_number, threads)
            finally:
                await asyncio.shield(self._publisher.release_all())
        return self._run.checkpoints.last()

    async def _round(self, round_number: int, threads: ThreadPoolExecutor) -> None:
        attributes: dict[str, str | int] = {
            names.RUN: self._run.name,
            names.ROUND_NUMBER: round_number,
            names.GAME: self._config.game,
        }
        with start_span(names.ROUND, attributes) as span:
            digests = await self._publisher.publish(self._team)
            began = time.perf_counter()
            collected = await collect(
                self._session, digests, round_number, tokens=self._team.needs_tokens, on_wave=self._reporter.wave
            )
            returns, coalitions = round_returns(collected, self._config.algorithm.event_rewards), None
            if needs_coalitions(self._estimator):
                returns, coalitions = await with_credits(
                    self._session, digests, collected, returns, self._reporter.wave
                )
            acted = time.perf_counter()
            advantages = self._estimator(returns, self._config.algorithm)
            reports = await self._learn(round_number, collected, advantages, threads)
            learned = time.perf_counter()
            metrics = round_metrics(
                round_number, collected, advantages, reports, digests, acted - began, learned - acted
            )
            if coalitions is not None:
                metrics["coalitions"] = asdict(coalitions)
            span.set_attribute(names.RETURN, metrics["return_mean"])
            span.set_attribute(names.DECISIONS, metrics["decisions"])
        validation = await self._validate(round_number)
        self._commit(round_number, collected, advantages, metrics | {"validation": validation}, validation)
        self._reporter.round(metrics)

    async def _learn(
        self, round_number: int, collected: Collected, advantages: Advantages, threads: ThreadPoolExecutor
    ) -> dict[str, UpdateReport]:
        if advantages.skip is not None:
            return {}
        samples = {agent: samples_of(agent, collected, advantages) for agent in self._team.agents}
        loop = asyncio.get_running_loop()
        jobs = []
        for group in self._team.jobs:
            if own := {agent: samples[agent] for agent in group if samples[agent]}:
                work = partial(contextvars.copy_context().run, self._update, own, round_number)
                jobs.append(loop.run_in_executor(threads, work))
        try:
            await asyncio.wait(jobs)
        except asyncio.CancelledError:
            self._stopping.set()
            await asyncio.gather(*jobs, return_exceptions=True)
            raise
        return {agent: report for job in jobs for agent, report in job.result().items()}

    def _update(self, samples: Mapping[str, list[Sample]], round_number: int) -> dict[str, UpdateReport]:
        attributes: dict[str, str | int] = {
            names.AGENT: ",".join(samples),
            names.DECISIONS: sum(map(len, samples.values())),
        }
        with start_span(names.LEARNER_STEP, attributes) as span:
            reports = self._team.update_together(samples, round_number, self._go_on)
            span.set_attribute(names.LOSS, sum(report.last.loss for report in reports.values()))
            return reports

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise UpdateStopped("the run is being stopped; go on with --resume")

    async def _validate(self, round_number: int) -> float | None:
        every = self._config.evaluation.every
        if not every or (round_number + 1) % every:
            return None
        digests = await self._publisher.publish(self._team)
        return await validate(self._session, digests, round_number)

    def _commit(
        self,
        round_number: int,
        collected: Collected,
        advantages: Advantages,
        metrics: Mapping[str, object],
        validation: float | None,
    ) -> None:
        part = Part(f"round-{round_number:06d}")
        context = self._context_of(round_number)
        for member, result in sorted(collected.results.items()):
            values = None if advantages.skip else advantages.values[member]
            add_episode(part, self._texts, context, member, result, values)
        self._writer.seal(part)
        self._patience.keep_trying(lambda: self._run.add_metrics(dict(metrics)))
        base_digest, seed = self._session.served.base_digest, self._config.seed
        self._patience.keep_trying(
            lambda: self._run.checkpoints.save(self._team, base_digest, round_number + 1, seed, validation)
        )

    def _context_of(self, round_number: int) -> Context:
        return replace(self._context, round=round_number)
