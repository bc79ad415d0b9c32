"""Plays teams on the same seeds and compares them; every episode is recorded with every step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from potluck.env.v1.env_service_pb2 import Detail
from potluck.play import EpisodeResult, EpisodeSpec, play
from potluck.telemetry import names
from potluck.telemetry.context import start_span
from potluck_trainer.checkpoints import Checkpoint
from potluck_trainer.errors import WrongPolicyError
from potluck_trainer.intervals import Interval, mean_interval, paired_difference
from potluck_trainer.learners.base import derive_seed
from potluck_trainer.progress import Reporter
from potluck_trainer.publishing import Publisher
from potluck_trainer.records.reader import text_hashes
from potluck_trainer.records.rows import Context, Part, Texts, add_episode
from potluck_trainer.records.writer import RecordWriter, write_atomic
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.session import Session
from potluck_trainer.teams import Lineup


@dataclass(frozen=True, slots=True)
class Judgement:
    """One team's returns, in the order of the seeds."""

    team: str
    returns: tuple[float, ...]
    interval: Interval


async def evaluate(
    session: Session, run: RunFolder, checkpoint: Checkpoint, lineups: Sequence[Lineup], reporter: Reporter
) -> list[Judgement]:
    """Plays each team on the test seeds; earlier sets of the same name are replaced."""
    publisher = Publisher(session.policy, run.name)
    writer = RecordWriter(run.path)
    judgements = []
    try:
        for lineup in lineups:
            for adapter in lineup.adapters:
                await publisher.publish_adapter(adapter)
            reporter.begin(f"evaluating {lineup.name}", 0)
            with start_span(names.EVALUATE, {names.RUN: run.name, names.SET: lineup.set, names.FORCE: True}):
                results = await _play(session, lineup, reporter)
            _record(session, run, writer, checkpoint, lineup, results)
            returns = tuple(result.finished.team_return for result in results)
            interval = mean_interval(returns, session.config.evaluation.confidence)
            judgements.append(Judgement(lineup.name, returns, interval))
            reporter.say(f"{lineup.name}: {interval} {session.game.reward_unit} over {len(returns)} episodes")
    finally:
        await publisher.release_all()
    _write_summary(session, run, checkpoint, judgements)
    return judgements


async def _play(session: Session, lineup: Lineup, reporter: Reporter) -> list[EpisodeResult]:
    config = session.config.resolved()
    specs = [
        EpisodeSpec(
            episode_id=f"{lineup.set}-{seed}",
            game=config.game,
            seed=seed,
            horizon=config.horizon,
            interface=session.interface,
            policies=lineup.policies,
            baselines=lineup.baselines,
            detail=Detail.DETAIL_STEPS,
            sample_seed=derive_seed("evaluation", seed),
        )
        for seed in config.evaluation.seeds
    ]
    options = session.play_options(
        tokens=False,
        temperature=config.evaluation.temperature or config.temperature,
        greedy=config.evaluation.greedy,
    )
    results = await play(specs, session.envs, session.policy, options, reporter.wave)
    wanted = {agent: policy.adapter for agent, policy in lineup.policies.items()}
    for result in results:
        for record in result.decisions:
            if record.adapter_digest != wanted[record.agent]:
                raise WrongPolicyError(
                    f"{record.agent} was played by {record.adapter_digest[:16] or 'the bare base'} instead of "
                    f"{wanted[record.agent][:16] or 'a builtin'}; nothing of the set is used, run the evaluation again"
                )
    return results


def _record(
    session: Session,
    run: RunFolder,
    writer: RecordWriter,
    checkpoint: Checkpoint,
    lineup: Lineup,
    results: Sequence[EpisodeResult],
) -> None:
    config = session.config.resolved()
    context = Context(
        run.name, lineup.set, checkpoint.round, session.game, session.served.backbone, session.label_scheme,
        0.0 if config.evaluation.greedy else config.evaluation.temperature or config.temperature,
    )  # fmt: skip
    part = Part(lineup.set.replace("/", "-"))
    texts = Texts(text_hashes(run.path))
    for member, result in enumerate(results):
        add_episode(part, texts, context, member, result)
    writer.replace(part)


def _write_summary(session: Session, run: RunFolder, checkpoint: Checkpoint, judgements: Sequence[Judgement]) -> None:
    config = session.config.resolved().evaluation
    confidence = config.confidence
    summary: dict[str, Any] = {
        "schema_version": 1,
        "game": session.game.name,
        "unit": session.game.reward_unit,
        "checkpoint_round": checkpoint.round,
        "seeds": list(config.seeds),
        "interface": session.config.interface,
        "temperature": 0.0 if config.greedy else config.temperature,
        "confidence": confidence,
        "teams": {
            judgement.team: {"returns": list(judgement.returns)} | asdict(judgement.interval)
            for judgement in judgements
        },
        "differences": {
            f"{one.team} - {other.team}": asdict(paired_difference(one.returns, other.returns, confidence))
            for place, one in enumerate(judgements)
            for other in judgements[place + 1 :]
        },
    }
    write_atomic(run.path / "evaluation.json", (json.dumps(summary, indent=2) + "\n").encode())


def results_table(judgements: Sequence[Judgement], unit: str, confidence: float) -> str:
    """A plain table: mean, interval, and the paired difference from the first team."""
    first = judgements[0]
    width = max(len(judgement.team) for judgement in judgements)
    head = f"{'team':{width}}  {unit + ' (mean)':>14}  {f'{confidence:.0%} interval':>16}  {'t interval':>16}  n"
    lines = [head + f"   difference of {first.team}"]
    for judgement in judgements:
        i = judgement.interval
        line = (
            f"{judgement.team:{width}}  {i.mean:14.2f}  {f'{i.low:.2f} .. {i.high:.2f}':>16}  "
            f"{f'{i.t_low:.2f} .. {i.t_high:.2f}':>16}  {i.count}"
        )
        if judgement is not first:
            line += f"   {paired_difference(first.returns, judgement.returns, confidence)}"
        lines.append(line)
    return "\n".join(lines)
