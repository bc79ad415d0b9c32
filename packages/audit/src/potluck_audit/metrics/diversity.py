"""Policy diversity on common observations: System Neural Diversity (Bettini et al., arXiv:2305.02128).

    D_ij = mean over o of JSD(pi_i(.|o), pi_j(.|o))        SND = mean of D_ij over pairs of agents

in bits, where o are recorded prompts and pi_j(.|o) is agent j's policy asked about them, whoever met them: only the
weights change, not a byte of the prompt. Histograms confound policy with place; this does not.

The common observations are the recorded prompts, of any agent, with at least two items, all of whose option types
were offered to every agent somewhere in the set. Elsewhere an agent would be asked about options that its seat never
has, and the answer would tell nothing that its training shaped; `menus_common` says how much of an agent's menus is
common. Teams without any are refused.

Each policy's answers to its own prompts must be those recorded, else the server is not the one that played.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from potluck.common.v1 import common_pb2 as common_pb
from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play.policy_client import PolicyClient
from potluck.play.scoring import Ask, Scorer
from potluck.play.specs import EpisodeSpec, PlayOptions
from potluck_audit.counterfactual.adapters import held
from potluck_audit.counterfactual.seats import BUILTINS, is_adapter, seats
from potluck_audit.errors import Diverged, Unsupported
from potluck_audit.intervals import Estimate, Floats, Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.options import jensen_shannon
from potluck_audit.metrics.prompts import RecordedPrompt, recorded_prompts

Choose = Callable[[str, Sequence[RecordedPrompt]], Awaitable[Sequence[Sequence[float]]]]
"""Asks a policy (adapter digest or builtin name) for its menu distributions."""

REFERENCE = "frozen"
TOLERANCE = 1e-3
"""Largest difference of a probability between the recorded answer and the one given again."""
PROMPTS = 2_000
"""Recorded prompts that are asked about, drawn evenly, where a set holds more."""
_SCHEMES = {"letters": common_pb.LABEL_SCHEME_LETTERS, "words": common_pb.LABEL_SCHEME_WORDS}


class Common(NamedTuple):
    """Observations that every agent could meet."""

    prompts: Sequence[RecordedPrompt]
    shares: Mapping[str, tuple[Floats, Floats]]
    """By agent and per episode: common prompts, and all with a choice."""


def common_prompts(prompts: Sequence[RecordedPrompt], agents: Sequence[str], episode_ids: Sequence[str]) -> Common:
    """Prompts whose option types were offered to all agents; none at all is refused."""
    offered = {a: frozenset[str]().union(*(p.options for p in prompts if p.agent == a)) for a in agents}
    shared = frozenset.intersection(*offered.values())
    chosen = [p for p in prompts if len(p.prompt.items) > 1 and p.agent in offered]
    common = [p for p in chosen if p.options <= shared]
    if not common:
        apart = "; ".join(f"{a}: {', '.join(sorted(options - shared)) or 'none'}" for a, options in offered.items())
        raise Unsupported(
            f"the agents' menus cannot be exchanged: no recorded menu holds only options of all ({apart})",
            "compare what they do (option_divergence, option_information) where seats have different work",
        )
    return Common(common, {a: (_counts(common, a, episode_ids), _counts(chosen, a, episode_ids)) for a in offered})


def _counts(prompts: Sequence[RecordedPrompt], agent: str, episode_ids: Sequence[str]) -> Floats:
    own = [p.episode_id for p in prompts if p.agent == agent]
    return np.array([own.count(e) for e in episode_ids], float)


async def diversity(
    episodes: EpisodeSet,
    prompts: Sequence[RecordedPrompt],
    choose: Choose,
    intervals: Intervals,
    reference: str = REFERENCE,
) -> list[Metric]:
    """`policy_diversity` (all prompts, and those of one agent), `policy_distance` per pair and from the reference,
    `menus_common`; the bootstrap draws episodes. Each policy is asked once about every common prompt."""
    own = policies_of(episodes)
    ids = [e.episode_id for e in episodes.episodes]
    common = common_prompts([p for p in prompts if p.episode_id in set(ids)], episodes.agents, ids)
    names = dict.fromkeys([*own.values(), *([reference] if reference else [])])
    answers = {name: [np.asarray(a, float) for a in await choose(name, common.prompts)] for name in names}
    _verify(common.prompts, own, answers)
    rows = _Rows(common.prompts, ids, intervals)
    pairs = {(a, b): rows.distances(answers[own[a]], answers[own[b]]) for a, b in combinations(own, 2)}
    everyone = np.mean(list(pairs.values()), axis=0)
    metrics = [Metric("policy_diversity", episodes.name, rows.mean(everyone), unit="bits")]
    for agent, (common_count, total) in common.shares.items():
        metrics.append(Metric("policy_diversity", episodes.name, rows.mean(everyone, agent), agent, unit="bits"))
        share = intervals.ratio(common_count, total)
        metrics.append(Metric("menus_common", episodes.name, share, agent, unit="share of menus"))
        if reference:
            away = rows.mean(rows.distances(answers[own[agent]], answers[reference]))
            metrics.append(Metric("policy_distance", episodes.name, away, agent, reference, "bits"))
    for (a, b), distances in pairs.items():
        metrics.append(Metric("policy_distance", episodes.name, rows.mean(distances), a, b, "bits"))
    return metrics


def policies_of(episodes: EpisodeSet) -> dict[str, str]:
    """Policy of each agent; teams that changed, play without menus, or hold seats of the env server are refused."""
    if len(episodes.agents) < 2:
        raise Unsupported(f"{episodes.name} has fewer than two agents", "audit a set of a team")
    own = {agent: episodes.episodes[0].policies[agent] for agent in episodes.agents}
    if any(dict(e.policies) != own for e in episodes.episodes):
        raise Unsupported(f"the episodes of {episodes.name} were played by different policies", "audit sets of a team")
    if any(e.interface != env_pb.INTERFACE_MENU for e in episodes.episodes):
        raise Unsupported(f"{episodes.name} was not played from menus", "audit a set with the menu interface")
    for agent, name in own.items():
        if not is_adapter(name) and name not in BUILTINS:
            raise Unsupported(
                f"{agent} was played by the env server's {name!r}, which cannot be asked about other prompts",
                "audit a set whose seats are all played by the policy server",
            )
    return own


def _verify(prompts: Sequence[RecordedPrompt], own: Mapping[str, str], answers: Mapping[str, Sequence[Floats]]) -> None:
    for place, recorded in enumerate(prompts):
        again = answers[own[recorded.agent]][place]
        if not np.allclose(again, recorded.probabilities, rtol=0, atol=TOLERANCE):
            raise Diverged(
                f"decision {recorded.decision} of {recorded.agent} in {recorded.episode_id} is not answered with the "
                "recorded distribution",
                "use the backbone, label scheme and temperature that the run was recorded with",
            )


class _Rows:
    """Distances of prompts as estimates over episodes."""

    def __init__(self, prompts: Sequence[RecordedPrompt], ids: Sequence[str], intervals: Intervals) -> None:
        self._place = np.array([ids.index(p.episode_id) for p in prompts])
        self._agents = np.array([p.agent for p in prompts])
        self._episodes, self._intervals = len(ids), intervals

    def distances(self, ours: Sequence[Floats], theirs: Sequence[Floats]) -> Floats:
        return np.array([float(jensen_shannon(np.stack(two))) for two in zip(ours, theirs, strict=True)])

    def mean(self, distances: Floats, agent: str = "") -> Estimate:
        use = self._agents == agent if agent else np.full(len(self._agents), True)
        sums: Floats = np.bincount(self._place[use], distances[use], minlength=self._episodes).astype(float)
        counts = np.bincount(self._place[use], minlength=self._episodes).astype(float)
        return self._intervals.ratio(sums, counts)


def served(policy: PolicyClient, options: PlayOptions) -> Choose:
    """Asks a policy server, held to one base; a prompt that it renders otherwise than recorded is refused."""
    scorer = Scorer(policy, options)

    async def choose(name: str, prompts: Sequence[RecordedPrompt]) -> Sequence[Sequence[float]]:
        asks = []
        for recorded in prompts:
            who = seats({recorded.agent: name}, frozenset({recorded.agent}), "noop").policies
            point = env_pb.DecisionPoint(agent=recorded.agent, decision=recorded.decision, prompt=recorded.prompt)
            asks.append(Ask(EpisodeSpec(recorded.episode_id, "", 0, policies=who), point))
        choices = await scorer.score(asks)
        for recorded, choice in zip(prompts, choices, strict=True):
            if recorded.prompt_hash not in ("", choice.prompt_digest):
                raise Diverged(
                    f"the policy server renders decision {recorded.decision} of {recorded.agent} in "
                    f"{recorded.episode_id} otherwise than it was recorded",
                    "use the backbone and label scheme that the run was recorded with",
                )
        return [choice.probabilities for choice in choices]

    return choose


async def swap_policies(
    run: Path, episodes: EpisodeSet, policy: PolicyClient, intervals: Intervals, most: int = PROMPTS
) -> list[Metric]:
    """Diversity of a recorded set at a policy server; adapters that it lacks are published from the run."""
    own, first = policies_of(episodes), episodes.episodes[0]
    options = PlayOptions(
        temperature=first.temperature or 1.0,
        label_scheme=_SCHEMES.get(first.label_scheme, common_pb.LABEL_SCHEME_UNSPECIFIED),
    )
    adapters = {name: agent for agent, name in own.items() if is_adapter(name)}
    prompts = recorded_prompts(run, episodes.name, most)
    async with held(policy, adapters, run):
        return await diversity(episodes, prompts, served(policy, options), intervals)
