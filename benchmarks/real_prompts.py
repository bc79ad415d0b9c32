"""Decisions of a shipped game as a learner gets them: random play on the real engine, rendered and tokenized as the
policy server does. For benchmarks; the old log-probability is that of the uniform choice.
"""

import math
import random
from pathlib import Path

from game_prompts import played
from transformers import AutoTokenizer

from potluck_policy_server.backbones.base import WORDS, Query, Scheme
from potluck_policy_server.lm.reading import Reading
from potluck_trainer.learners.base import Sample

EPISODES = 8


def real_samples(
    folder: Path, game: str, agents: int, per_agent: int, scheme: Scheme = WORDS, seed: int = 0
) -> list[list[Sample]]:
    """For each of the first `agents` seats so many decisions, in the order of play; `folder` holds the tokenizer."""
    reading, rng = Reading(AutoTokenizer.from_pretrained(folder)), random.Random(seed)
    found: list[list[Sample]] = [[] for _ in range(agents)]
    for asked in played(game, EPISODES, 4 * per_agent, seed):
        items = asked.prompt.items
        if asked.seat >= agents or len(found[asked.seat]) == per_agent or len(items) < 2:
            continue
        job = reading.prepare(Query(asked.prompt, None, 1.0, scheme), game, scheme, 0)
        found[asked.seat].append(
            Sample(
                episode=asked.episode,
                index=asked.index,
                logprob=-math.log(len(items)),
                advantage=rng.gauss(0, 1),
                prefix=job.job.prefix,
                suffix=job.job.suffix,
                labels=job.paths,
            )
        )
    if any(len(own) < per_agent for own in found):
        raise RuntimeError(f"{game}: {EPISODES} episodes do not hold {per_agent} decisions of each of {agents} agents")
    return found
