"""A small world without servers: a game of lanterns, and a policy server that scores it, behind the play interface.

Each of two agents sees a colour and is offered three lanterns in shuffled order; the team earns a point where both
took the lantern of their colour in the same step. Everything derives from the specs' seeds.
"""

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from potluck.common.v1.common_pb2 import Item, LabelScheme, Prompt
from potluck.env.v1.env_service_pb2 import Finished, GameInfo, OptionRecord, Recording, StepRecord
from potluck.play import DecisionRecord, EpisodeLost, EpisodeResult, adapter_digest
from potluck.policy.v1.policy_service_pb2 import BackboneKind, DescribeResponse, TokenPath, Tokens
from potluck.rpc.errors import PotluckError, Reason
from potluck_trainer import coalition_play, evaluation, rollouts, validation
from potluck_trainer.config import RunConfig
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.table import TableTeam
from potluck_trainer.session import Session

COLOURS = ("red", "green", "blue")
AGENTS = ("agent_0", "agent_1")
BASE = "b" * 64


@dataclass
class FakePolicy:
    """Keeps published adapters by digest and scores with a team of its own."""

    scorer: object
    address: str = "policy:0"
    held: dict = field(default_factory=dict)
    leases: dict = field(default_factory=dict)
    granted: int = 0
    loaded: str = ""
    distort: float = 0.0
    """Added to every log-probability, as a server with another temperature would."""

    async def publish(self, agent, config_json, weights, base_digest):
        digest = adapter_digest(base_digest, config_json, hashlib.sha256(weights).hexdigest())
        self.held[digest] = (config_json, weights)
        return digest, await self.hold(digest, "upload")

    async def hold(self, digest, holder, ttl_s=0):
        if digest not in self.held:
            raise PotluckError(Reason.UNKNOWN_ADAPTER, f"no adapter {digest}", "publish it")
        self.granted += 1
        lease = f"lease{self.granted}"
        self.leases[lease] = digest
        return lease

    async def release(self, lease):
        self.leases.pop(lease, None)

    def logp(self, policy, sample, temperature):
        if not policy.adapter:
            return np.full(sample.size, -math.log(sample.size))
        if policy.adapter != self.loaded:
            self.scorer.load_adapter("scorer", *self.held[policy.adapter])
            self.loaded = policy.adapter
        return self.scorer.logp("scorer", [sample])[0, : sample.size]


class TableScorer(TableTeam):
    def __init__(self, config):
        super().__init__(("scorer",), BASE, config.learner, config.temperature, 0)

    def logp(self, agent, samples):
        table = self._tables[agent]
        table.grow(samples)
        return table.logp(*table.places(samples), self._temperature)


class World:
    """Plays specs; `lose` names episodes that fail for good, `waves` counts calls."""

    def __init__(self, steps=12):
        self.steps = steps
        self.lose = set()
        self.plays = 0
        self.on_play = None

    async def play(self, specs, envs, policy, options=None, on_wave=None):
        self.plays += 1
        if self.on_play is not None:
            await self.on_play(self.plays)
        for spec in specs:
            if spec.episode_id in self.lose:
                lost = PotluckError(Reason.ENGINE_CRASHED, "the engine died", "try again")
                raise EpisodeLost(spec.episode_id, options.max_attempts, lost)
        return [self._episode(spec, policy, options) for spec in specs]

    def _episode(self, spec, policy, options):
        rng = np.random.default_rng(spec.seed)
        sampler = np.random.default_rng(spec.sample_seed)
        decisions, ended = [], []
        hits = np.ones(self.steps, dtype=bool)
        for agent in spec.policies:
            for step in range(self.steps):
                record, hit = self._decide(spec, agent, step, rng, sampler, policy, options)
                decisions.append(record)
                ended.append(OptionRecord(agent=agent, decision=step, option="take", outcome="success", duration=1))
                hits[step] &= hit
        steps = [StepRecord(step=int(step), reward=1.0) for step in np.flatnonzero(hits)]
        total = float(hits.sum())
        path = "/".join(f"{record.agent}{record.letter}" for record in decisions)
        digest = hashlib.sha256(f"{spec.seed} {path}".encode()).hexdigest()
        recording = Recording(
            schema_version=1, game=spec.game, library_digest="l" * 64, seed=spec.seed, horizon=self.steps, digest=digest
        )
        finished = Finished(
            steps=self.steps, team_return=total, agent_returns=[total, total], truncated=True, recording=recording
        )
        return EpisodeResult(spec, finished, decisions, steps, ended, 1, "env:0", BASE, "t" * 64, "")

    def _decide(self, spec, agent, step, rng, sampler, policy, options):
        colour = COLOURS[rng.integers(3)]
        order = [COLOURS[k] for k in rng.permutation(3)]
        items = [
            Item(letter="ABC"[k], word=name, option="take", target=name, text=f"take {name}", action_key=name)
            for k, name in enumerate(order)
        ]
        prompt = Prompt(rules="lanterns", observation=f"see {colour}", items=items, state_key=colour)
        tokens = tokens_of(colour, order)
        logp = policy.logp(spec.policies[agent], sample_of(prompt, tokens), options.temperature)
        p = np.exp(logp)
        index = int(np.searchsorted(np.cumsum(p), sampler.random() * p.sum(), side="right").clip(0, 2))
        record = DecisionRecord(
            agent=agent, decision=step, boundary=step, step=step, prompt=prompt, letter="ABC"[index], index=index,
            logprob=float(logp[index]) + policy.distort, probabilities=tuple(p.tolist()), label_mass=math.nan,
            adapter_digest=spec.policies[agent].adapter, builtin=0, prompt_digest="p" * 64, prompt_tokens=0,
            tokens=tokens if options.tokens else None, menu_digest="m" * 64, cut=0, outcome="success", duration=1,
            reward=0.0,
        )  # fmt: skip
        return record, order[index] == colour


def tokens_of(colour, order):
    """A prompt of a few tokens; "blue" is a label of two."""
    ids = {"red": [11], "green": [12], "blue": [13, 14]}
    suffix = [5, 20 + COLOURS.index(colour), *(21 + COLOURS.index(name) for name in order), 6]
    return Tokens(prefix=[1, 2, 3], suffix=suffix, labels=[TokenPath(ids=ids[name]) for name in order])


def sample_of(prompt, tokens, episode=0, index=0, logprob=0.0, advantage=0.0):
    return Sample(
        episode, index, logprob, advantage, prompt.state_key, tuple(item.action_key for item in prompt.items),
        tuple(tokens.prefix), tuple(tokens.suffix), tuple(tuple(path.ids) for path in tokens.labels),
    )  # fmt: skip


@pytest.fixture
def world(monkeypatch):
    """The world in place of real servers."""
    fake = World()
    for module in (rollouts, coalition_play, evaluation, validation):
        monkeypatch.setattr(module, "play", fake.play)
    return fake


@pytest.fixture
def table_config(tmp_path):
    return RunConfig.model_validate(
        {
            "game": "fake/lanterns", "backbone": "tabular", "rounds": 6, "temperature": 1.0, "out": tmp_path,
            "name": "run", "learner": {"lr": 0.1, "beta": 0.0},
            "evaluation": {"seeds": list(range(100, 106)), "validation_seeds": [200, 201]},
        }
    )  # fmt: skip


def session_of(config, policy, kind=BackboneKind.BACKBONE_KIND_TABLE):
    game = GameInfo(name=config.game, agents=AGENTS, default_horizon=12, library_digest="l" * 64, reward_unit="points")
    served = DescribeResponse(
        backbone=config.backbone, kind=kind, base_digest=BASE, label_scheme=LabelScheme.LABEL_SCHEME_WORDS
    )
    return Session(config, None, policy, game, served)


@pytest.fixture
def table_session(table_config):
    """Makes a session with a fresh policy server for a config."""
    return lambda config=table_config: session_of(config, FakePolicy(TableScorer(config)))


@pytest.fixture
def make_session():
    return session_of


@pytest.fixture
def fake_policy():
    return FakePolicy


@pytest.fixture
def agents():
    return AGENTS


@pytest.fixture
def base_digest():
    return BASE


@pytest.fixture
def lantern_samples():
    """Decisions with tokens, old log-probabilities to be filled in."""

    def make(count, seed=0):
        rng = np.random.default_rng(seed)
        out = []
        for n in range(count):
            colour, order = COLOURS[rng.integers(3)], [COLOURS[k] for k in rng.permutation(3)]
            items = [Item(letter="ABC"[k], action_key=name) for k, name in enumerate(order)]
            prompt = Prompt(items=items, state_key=colour)
            advantage = float(rng.choice([-1.0, 1.0]))
            out.append(sample_of(prompt, tokens_of(colour, order), n % 4, int(rng.integers(3)), 0.0, advantage))
        return out

    return make
