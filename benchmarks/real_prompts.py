"""Decisions of a shipped game as a learner gets them: random play on the real engine, rendered and tokenized as the
policy server does. For benchmarks; the old log-probability is that of the uniform choice.
"""

import math
import random
from pathlib import Path

from transformers import AutoTokenizer

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.episode import Episode, Settings
from potluck_envs.registry import Registry
from potluck_policy_server.backbones.base import WORDS, Query, Scheme
from potluck_policy_server.lm.reading import Reading
from potluck_trainer.learners.base import Sample


def real_samples(
    folder: Path, game: str, agents: int, per_agent: int, scheme: Scheme = WORDS, seed: int = 0
) -> list[list[Sample]]:
    """For each of the first `agents` seats so many decisions, in the order of time; `folder` holds the tokenizer."""
    reading, library, rng = (
        Reading(AutoTokenizer.from_pretrained(folder)),
        Registry().library(game),
        random.Random(seed),
    )
    found: dict[str, list[Sample]] = {}
    for number in range(1000):
        episode = Episode.start(library, Settings(seed + number, 400), {})
        update = episode.advance()
        while isinstance(update, pb.Menus):
            chosen = []
            for point in update.decisions:
                index = rng.randrange(len(point.prompt.items))
                chosen.append(pb.Choice(agent=point.agent, letter=point.prompt.items[index].letter))
                own = found.setdefault(point.agent, [])
                if len(own) < per_agent and len(point.prompt.items) > 1:
                    job = reading.prepare(Query(point.prompt, None, 1.0, scheme), game, scheme, 0)
                    old = -math.log(len(point.prompt.items))
                    own.append(
                        Sample(
                            episode=number,
                            index=index,
                            logprob=old,
                            advantage=rng.gauss(0, 1),
                            prefix=job.job.prefix,
                            suffix=job.job.suffix,
                            labels=job.paths,
                        )
                    )
            full = [own for own in found.values() if len(own) == per_agent]
            if len(full) >= agents:
                return full[:agents]
            update = episode.choose(pb.Choose(boundary=update.boundary, choices=chosen))
    raise RuntimeError(f"{game} has no {agents} agents with {per_agent} decisions in 1000 episodes")
