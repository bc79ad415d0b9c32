"""`potluck train`: a new run, or the rest of an interrupted one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from potluck_trainer.algorithms import registry
from potluck_trainer.checkpoints import Checkpoint
from potluck_trainer.config import RunConfig
from potluck_trainer.errors import ConfigError
from potluck_trainer.learners.base import Team
from potluck_trainer.progress import Reporter
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.services import with_services
from potluck_trainer.session import Session, check_addresses, make_team, open_session
from potluck_trainer.training import Trainer


async def train(config: RunConfig, reporter: Reporter, resume: bool = False) -> RunFolder:
    """Trains with the servers named in the config, starting those that it does not name."""
    run = RunFolder(config.run_dir)
    with run.claimed():
        check_start(config, run, resume)
        async with with_services(config, run.path / "logs") as ready, open_session(ready) as session:
            return await train_with(session, resume, reporter)


def check_start(config: RunConfig, run: RunFolder, resume: bool) -> None:
    """What can be known to be wrong before any service is started."""
    check_addresses(config)
    registry.chosen(config.algorithm)
    if resume:
        run.checkpoints.last()
        run.check_resumable(config)
    else:
        run.refuse_begun()


def resumed_config(resume: Path, rounds: int | None, envs: str, policy: str) -> RunConfig:
    """The interrupted run's settings; only how long and with which servers it goes on may be new."""
    old = RunFolder.open(resume).config()
    place = {"out": resume.parent, "name": resume.name}
    return old.model_copy(
        update=place | {"rounds": old.rounds if rounds is None else rounds, "envs": envs, "policy": policy}
    )


async def train_with(session: Session, resume: bool, reporter: Reporter, again: str = "") -> RunFolder:
    """Trains over an open session, the folder locked by the caller; `again` is said to be the way on after an
    interrupt."""
    config = session.config
    run = RunFolder(config.run_dir)
    team = await make_team(session)
    if resume:
        start = _restore(run, session, team).round
        reporter.say(f"resuming {run.path} after {start} rounds")
    else:
        run = RunFolder.create(config, _facts(session))
        run.checkpoints.save(team, session.served.base_digest, 0, config.seed, None)
        start = 0
    try:
        await Trainer(session, run, team, reporter).run(start)
    except asyncio.CancelledError:
        reporter.say(f"the round under way is dropped; go on with: {again or f'potluck train --resume {run.path}'}")
        raise
    reporter.say(f"{run.checkpoints.last().round} rounds are in {run.path}")
    return run


def _restore(run: RunFolder, session: Session, team: Team) -> Checkpoint:
    run.check_resumable(session.config)
    checkpoint = run.checkpoints.last()
    if checkpoint.base_digest != session.served.base_digest:
        raise ConfigError(
            f"{run.path} was trained on base {checkpoint.base_digest[:16]}…, {session.policy.address} serves "
            f"{session.served.base_digest[:16]}…; start the policy server with the run's backbone"
        )
    library = run.facts().get("library_digest")
    if library != session.game.library_digest:
        raise ConfigError(
            f"{run.path} was played with option library {str(library)[:16]}…, the env servers have "
            f"{session.game.library_digest[:16]}…; use the version that the run began with, or start a new run"
        )
    run.roll_back(checkpoint.round)
    run.checkpoints.restore(team, checkpoint)
    return checkpoint


def _facts(session: Session) -> dict[str, object]:
    game, served = session.game, session.served
    return {
        "game": game.name,
        "agents": list(game.agents),
        "library_digest": game.library_digest,
        "engine": game.engine,
        "dynamics": game.dynamics,
        "reward_unit": game.reward_unit,
        "backbone": served.backbone,
        "base_digest": served.base_digest,
        "tokenizer_digest": served.tokenizer_digest,
        "label_scheme": session.label_scheme,
        "dtype": served.dtype,
        "parameters": served.parameters,
    }
