"""`potluck eval`: a run's teams on the test seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck_trainer.checkpoints import Checkpoint
from potluck_trainer.config import RunConfig
from potluck_trainer.errors import ConfigError
from potluck_trainer.evaluation import Judgement, evaluate, results_table
from potluck_trainer.progress import Reporter
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.services import with_services
from potluck_trainer.session import Session, check_addresses, open_session
from potluck_trainer.teams import Lineup, lineups

if TYPE_CHECKING:
    from potluck_trainer.arguments import EvalArgs


async def evaluate_run(args: EvalArgs, reporter: Reporter) -> list[Judgement]:
    """Plays the teams that were asked for; what can be wrong with them is found before a service starts."""
    run = RunFolder.open(args.run)
    config = _config(args, run.config())
    check_addresses(config)
    checkpoint = chosen(run, args.checkpoint)
    teams = lineups(args.teams, run, checkpoint, _other_interface(config, run))
    with run.locked():
        async with with_services(config, run.path / "logs") as ready, open_session(ready) as session:
            return await judge(session, run, checkpoint, teams, reporter)


def _config(args: EvalArgs, config: RunConfig) -> RunConfig:
    changed: dict[str, object] = {}
    if args.seeds:
        changed["seeds"] = args.seeds
    if args.greedy is not None:
        changed["greedy"] = args.greedy
    if args.temperature is not None:
        changed["temperature"] = args.temperature
    evaluation = config.evaluation.model_copy(update=changed)
    interface = args.interface or config.interface
    # A copy is not validated again: `json` is refused for training, not here.
    return config.model_copy(
        update={"evaluation": evaluation, "interface": interface, "envs": args.envs, "policy": args.policy}
    )


def _other_interface(config: RunConfig, run: RunFolder) -> str:
    """The interface, where it is not the one that the run was trained with."""
    return "" if config.interface == run.config().interface else config.interface


async def judge(
    session: Session, run: RunFolder, checkpoint: Checkpoint, teams: Sequence[Lineup], reporter: Reporter
) -> list[Judgement]:
    """Plays the teams and shows the table. The run is locked by the caller."""
    if checkpoint.base_digest != session.served.base_digest:
        raise ConfigError(
            f"{run.path} was trained on another base than {session.policy.address} serves; "
            "start the policy server with the run's backbone"
        )
    judgements = await evaluate(session, run, checkpoint, teams, reporter)
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
