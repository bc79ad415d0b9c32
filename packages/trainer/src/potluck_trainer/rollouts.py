"""One round's episodes: K joint plays with the same weights, pulled from the env servers.

All seeds derive from the run's seed, the round and the member's number, so a round that is played again is the same
round. A member that is lost for good leaves the round, which is then short; nothing is averaged in for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from potluck.play import EpisodeLost, EpisodeResult, EpisodeSpec, OnWave, adapter, play
from potluck_trainer.algorithms.base import Advantages, EpisodeReturns, RoundReturns
from potluck_trainer.errors import TrainerError, WrongPolicyError
from potluck_trainer.learners.base import Sample, derive_seed
from potluck_trainer.session import Session

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round brought."""

    results: dict[int, EpisodeResult]
    """By member."""
    lost: tuple[int, ...]

    @property
    def decisions(self) -> int:
        return sum(len(result.decisions) for result in self.results.values())


def round_specs(session: Session, digests: Mapping[str, str], round_number: int) -> list[EpisodeSpec]:
    """The K episodes of a round."""
    config = session.config
    return [
        EpisodeSpec(
            episode_id=f"train-{round_number:06d}-{member:03d}",
            game=config.game,
            seed=derive_seed(config.seed, "env", round_number, member),
            horizon=config.horizon,
            interface=session.interface,
            policies={agent: adapter(digests[agent]) for agent in session.agents},
            sample_seed=derive_seed(config.seed, "sample", round_number, member),
        )
        for member in range(config.episodes_per_round)
    ]


async def collect(
    session: Session,
    digests: Mapping[str, str],
    round_number: int,
    *,
    tokens: bool,
    on_wave: OnWave | None = None,
) -> Collected:
    """Plays a round."""
    specs = dict(enumerate(round_specs(session, digests, round_number)))
    options = session.play_options(tokens=tokens, temperature=session.config.temperature)
    lost: list[int] = []
    last = ""
    while specs:
        try:
            played = await play(list(specs.values()), session.envs, session.policy, options, on_wave)
        except EpisodeLost as error:
            member = next(k for k, spec in specs.items() if spec.episode_id == error.metadata["episode_id"])
            log.warning("round %d goes on without member %d: %s", round_number, member, error)
            lost.append(member)
            last = str(error)
            del specs[member]
            continue
        results = dict(zip(specs, played, strict=True))
        check_identity(session, results.values(), digests)
        return Collected(results, tuple(lost))
    raise TrainerError(f"every episode of round {round_number} was lost, lastly: {last}; then go on with --resume")


def check_identity(session: Session, results: Iterable[EpisodeResult], digests: Mapping[str, str]) -> None:
    """Refuses decisions that were computed with other weights than those asked for."""
    for result in results:
        if result.base_digest != session.served.base_digest:
            raise WrongPolicyError(
                f"{session.policy.address} changed its base to {result.base_digest[:16]}… during the run; "
                "start the backbone that the run began with and --resume"
            )
        for record in result.decisions:
            if record.adapter_digest != digests[record.agent]:
                raise WrongPolicyError(
                    f"{record.agent} was played by {record.adapter_digest[:16] or 'the bare base'}, "
                    f"not by {digests[record.agent][:16]}…; nothing of the round is used, --resume plays it again"
                )


def round_returns(collected: Collected, event_rewards: Mapping[str, float]) -> RoundReturns:
    """What an advantage estimator needs of a round. `event_rewards`: what an event adds to its step, by its kind."""
    episodes = []
    for member, result in sorted(collected.results.items()):
        rewards_T = np.zeros(result.finished.steps)
        for step in result.steps:
            rewards_T[step.step] += step.reward + sum(event_rewards.get(event.kind, 0.0) for event in step.events)
        steps: dict[str, list[int]] = {agent: [] for agent in result.spec.policies}
        keys: dict[str, list[str]] = {agent: [] for agent in result.spec.policies}
        for record in result.decisions:
            steps[record.agent].append(record.step)
            keys[record.agent].append(record.prompt.state_key)
        decision_steps = {agent: tuple(at) for agent, at in steps.items()}
        decision_keys = {agent: tuple(named) for agent, named in keys.items()}
        episodes.append(EpisodeReturns(member, result.finished.team_return, rewards_T, decision_steps, decision_keys))
    return RoundReturns(tuple(episodes))


def samples_of(agent: str, collected: Collected, advantages: Advantages) -> list[Sample]:
    """One agent's decisions, in the order of members and time."""
    samples = []
    for member, result in sorted(collected.results.items()):
        own = [record for record in result.decisions if record.agent == agent]
        for record, advantage in zip(own, advantages.values[member][agent], strict=True):
            tokens = record.tokens
            samples.append(
                Sample(
                    episode=member,
                    index=record.index,
                    logprob=record.logprob,
                    advantage=float(advantage),
                    state_key=record.prompt.state_key,
                    action_keys=tuple(item.action_key for item in record.prompt.items),
                    prefix=tuple(tokens.prefix) if tokens else (),
                    suffix=tuple(tokens.suffix) if tokens else (),
                    labels=tuple(tuple(path.ids) for path in tokens.labels) if tokens else (),
                )
            )
    return samples
