"""The mean return on validation seeds, by which checkpoints are chosen; test seeds are never used for that."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from potluck.play import EpisodeSpec, adapter, play
from potluck_trainer.learners.base import derive_seed
from potluck_trainer.session import Session


async def validate(session: Session, digests: Mapping[str, str], round_number: int) -> float:
    """Mean team return of the present weights."""
    config = session.config.resolved()
    evaluation = config.evaluation
    specs = [
        EpisodeSpec(
            episode_id=f"validate-{round_number:06d}-{seed}",
            game=config.game,
            seed=seed,
            horizon=config.horizon,
            interface=session.interface,
            policies={agent: adapter(digests[agent]) for agent in session.agents},
            sample_seed=derive_seed(config.seed, "validate", seed),
        )
        for seed in evaluation.validation_seeds
    ]
    options = session.play_options(
        tokens=False, temperature=evaluation.temperature or config.temperature, greedy=evaluation.greedy
    )
    results = await play(specs, session.envs, session.policy, options)
    return float(np.mean([result.finished.team_return for result in results]))
