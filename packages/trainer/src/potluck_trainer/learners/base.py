"""What every learner offers, whatever its weights are.

A `Team` holds one private set of weights per agent over one frozen base. `update` moves exactly one agent's weights and
that agent's optimiser; nothing of another agent or of the base moves by a bit. `export` gives an immutable adapter,
named by its digest as the policy server computes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from potluck.play import adapter_digest
from potluck_trainer.errors import AgreementError, NonFiniteError
from potluck_trainer.losses import Floats, Ints, LossTerms


def canonical_json(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Adapter:
    """Immutable weights of one agent."""

    agent: str
    base_digest: str
    config_json: str
    weights: bytes
    """A safetensors file."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.weights).hexdigest()

    @property
    def digest(self) -> str:
        return adapter_digest(self.base_digest, self.config_json, self.sha256)


@dataclass(frozen=True, slots=True)
class Sample:
    """One decision as a learner needs it."""

    episode: int
    index: int
    logprob: float
    advantage: float
    state_key: str = ""
    action_keys: tuple[str, ...] = ()
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    labels: tuple[tuple[int, ...], ...] = ()

    @property
    def size(self) -> int:
        return len(self.action_keys) or len(self.labels)


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update did, for `metrics.jsonl`."""

    decisions: int
    steps: int
    first: LossTerms
    """Before any step (of the first minibatch, where there are several)."""
    last: LossTerms
    agreement: float
    """Largest |sampled - recomputed| log-probability before the first step."""
    grad_norm: float
    seconds: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)


GoOn = Callable[[], None]
"""Called before each piece of an update; raises UpdateStopped where the run is being stopped."""


def always() -> None:
    """Nothing stops this update."""


class Team(Protocol):
    """One private set of weights per agent."""

    @property
    def agents(self) -> tuple[str, ...]: ...

    @property
    def needs_tokens(self) -> bool:
        """Whether samples must carry token ids."""
        ...

    def update(self, agent: str, samples: Sequence[Sample], round_number: int, go_on: GoOn = always) -> UpdateReport:
        """One round's steps. What `go_on` raises leaves weights and optimiser anywhere between two rounds: they are
        thrown away with the round, and a resumed run begins at its last checkpoint."""
        ...

    @property
    def jobs(self) -> tuple[tuple[str, ...], ...]:
        """Agents that learn together; such groups can learn at the same time, each in a thread."""
        ...

    def update_together(
        self, samples: Mapping[str, Sequence[Sample]], round_number: int, go_on: GoOn = always
    ) -> dict[str, UpdateReport]:
        """One round's steps of several agents, each as if it were alone."""
        ...

    def export(self, agent: str) -> Adapter: ...

    def load_adapter(self, agent: str, config_json: str, weights: bytes) -> None: ...

    def optimiser_state(self, agent: str) -> bytes: ...

    def load_optimiser_state(self, agent: str, state: bytes) -> None: ...


def check_agreement(difference: float, tolerance: float, agent: str) -> None:
    """Stops before a step that would start from a wrong ratio."""
    if not np.isfinite(difference) or difference > tolerance:
        raise AgreementError(
            f"{agent}: the policy server's log-probabilities and the learner's differ by {difference:.2e}, more than "
            f"{tolerance:.0e}. Compare base digests, temperature, label scheme and dtype of both; "
            "raise learner.agreement only if the difference is rounding of a lower precision"
        )


def check_finite(name: str, value: float, agent: str) -> None:
    if not np.isfinite(value):
        raise NonFiniteError(f"{agent}: {name} is {value}; lower learner.lr, or look into the round's records")


def minibatches(count: int, size: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Indices of each minibatch of one epoch; all in order when one minibatch holds everything."""
    if not size or size >= count:
        return [np.arange(count)]
    order = np.random.Generator(np.random.PCG64(seed)).permutation(count)
    return [np.sort(order[start : start + size]) for start in range(0, count, size)]


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from named parts."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8]) >> 1


def columns(samples: Sequence[Sample]) -> tuple[Ints, Ints, Floats, Floats]:
    """episode_N, index_N, old_logp_N, advantage_N."""
    return (
        np.array([sample.episode for sample in samples], dtype=np.int64),
        np.array([sample.index for sample in samples], dtype=np.int64),
        np.array([sample.logprob for sample in samples], dtype=np.float64),
        np.array([sample.advantage for sample in samples], dtype=np.float64),
    )
