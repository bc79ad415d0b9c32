"""`potluck eval`: a run's teams on the test seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck_trainer.checkpoints import Checkpoint
from potluck_trainer.errors import ConfigError
from potluck_trainer.evaluation import Judgement, evaluate, results_table
from potluck_trainer.progress import Reporter
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.services import with_services
from potluck_trainer.session import Session, open_session
from potluck_trainer.teams import lineup

if TYPE_CHECKING:
    from potluck_trainer.arguments import EvalArgs


async def evaluate_run(args: EvalArgs, reporter: Reporter) -> list[Judgement]:
    run = RunFolder.open(args.run)
    config = run.config()
    changed: dict[str, object] = {}
    if args.seeds:
        changed["seeds"] = args.seeds
    if args.greedy is not None:
        changed["greedy"] = args.greedy
    if args.temperature is not None:
        if not args.temperature > 0:
            raise ConfigError(f"temperature is {args.temperature}; give one above 0, or --greedy for the best item")
        changed["temperature"] = args.temperature
    evaluation = config.evaluation.model_copy(update=changed)
    config = config.model_copy(update={"evaluation": evaluation, "envs": args.envs, "policy": args.policy})
    async with with_services(config, run.path / "logs") as ready, open_session(ready) as session:
        return await judge(session, run, chosen(run, args.checkpoint), args.teams, reporter)


async def judge(
    session: Session, run: RunFolder, checkpoint: Checkpoint, teams: Sequence[str], reporter: Reporter
) -> list[Judgement]:
    """Plays the named teams and shows the table."""
    if checkpoint.base_digest != session.served.base_digest:
        raise ConfigError(
            f"{run.path} was trained on another base than {session.policy.address} serves; "
            "start the policy server with the run's backbone"
        )
    lineups = [lineup(name, session, run, checkpoint) for name in teams]
    with run.locked():
        judgements = await evaluate(session, run, checkpoint, lineups, reporter)
    reporter.say(results_table(judgements, session.game.reward_unit, session.config.evaluation.confidence))
    return judgements


def chosen(run: RunFolder, round_number: int | None) -> Checkpoint:
    """The checkpoint after this round; the best on validation seeds, or the last, without one."""
    if round_number is None:
        return run.checkpoints.best()
    for checkpoint in run.checkpoints.all():
        if checkpoint.round == round_number:
            return checkpoint
    raise ConfigError(
        f"{run.path} has no checkpoint of round {round_number}; it has 0 to {run.checkpoints.last().round}"
    )
