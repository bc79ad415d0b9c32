"""A softmax table per agent over (state key, action key): the scientific baseline, and the fast lane of the tests.

P(item) = softmax over the offered items of table[state key, action key] / T; an unseen row or column is 0, so the
frozen base is the uniform policy. The same losses as a language model's, with Adam.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from potluck_trainer import losses
from potluck_trainer.config import LearnerConfig
from potluck_trainer.errors import CheckpointError
from potluck_trainer.learners.base import (
    Adapter,
    GoOn,
    Sample,
    UpdateReport,
    always,
    canonical_json,
    check_agreement,
    check_finite,
    columns,
    derive_seed,
    minibatches,
)
from potluck_trainer.learners.weights import canonical, header_of
from potluck_trainer.losses import Floats, Ints, LossTerms

CONFIG_JSON = canonical_json({"kind": "table"})
ADAM = (0.9, 0.999, 1e-8)


@dataclass
class Table:
    """Logits and Adam's moments; rows and columns grow as keys appear."""

    rows: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    logits: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    m: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    v: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    t: int = 0

    def grow(self, samples: Sequence[Sample]) -> None:
        """New keys in sorted order, so that the table does not depend on the order of episodes."""
        self.rows += sorted({sample.state_key for sample in samples} - set(self.rows))
        self.columns += sorted({key for sample in samples for key in sample.action_keys} - set(self.columns))
        shape = (len(self.rows), len(self.columns))
        for name in ("logits", "m", "v"):
            old: Floats = getattr(self, name)
            new = np.zeros(shape)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)

    def places(self, samples: Sequence[Sample]) -> tuple[Ints, Ints]:
        """row_N and column_NM, −1 beyond the menu."""
        row_of = {key: place for place, key in enumerate(self.rows)}
        column_of = {key: place for place, key in enumerate(self.columns)}
        width = max(sample.size for sample in samples)
        column_NM = np.full((len(samples), width), -1, dtype=np.int64)
        for n, sample in enumerate(samples):
            column_NM[n, : sample.size] = [column_of[key] for key in sample.action_keys]
        return np.array([row_of[sample.state_key] for sample in samples], dtype=np.int64), column_NM

    def logp(self, row_N: Ints, column_NM: Ints, temperature: float) -> Floats:
        logits_NM = self.logits[row_N[:, None], column_NM] / temperature
        return losses.log_softmax(np.where(column_NM >= 0, logits_NM, -np.inf))

    def step(self, grad: Floats, lr: float) -> None:
        b1, b2, epsilon = ADAM
        self.t += 1
        self.m = b1 * self.m + (1 - b1) * grad
        self.v = b2 * self.v + (1 - b2) * grad**2
        m_hat, v_hat = self.m / (1 - b1**self.t), self.v / (1 - b2**self.t)
        self.logits = self.logits - lr * m_hat / (np.sqrt(v_hat) + epsilon)


class TableTeam:
    """One table per agent."""

    needs_tokens = False

    def __init__(
        self, agents: Sequence[str], base_digest: str, config: LearnerConfig, temperature: float, seed: int
    ) -> None:
        self._agents = tuple(agents)
        self._base_digest = base_digest
        self._config = config
        self._temperature = temperature
        self._seed = seed
        self._tables = {agent: Table() for agent in agents}

    @property
    def agents(self) -> tuple[str, ...]:
        return self._agents

    def update(self, agent: str, samples: Sequence[Sample], round_number: int, go_on: GoOn = always) -> UpdateReport:
        started = time.perf_counter()
        config, table = self._config, self._tables[agent]
        table.grow(samples)
        row_N, column_NM = table.places(samples)
        episode_N, index_N, old_logp_N, advantage_N = columns(samples)
        ref_NM = losses.log_softmax(np.where(column_NM >= 0, 0.0, -np.inf))
        first: LossTerms | None = None
        last, agreement, grad_norm, steps = LossTerms(), 0.0, 0.0, 0
        for epoch in range(config.epochs):
            seed = derive_seed(self._seed, "minibatch", agent, round_number, epoch)
            for batch in minibatches(len(samples), config.minibatch, seed):
                go_on()
                logp_NM = table.logp(row_N[batch], column_NM[batch], self._temperature)
                if first is None:
                    sampled = logp_NM[np.arange(len(batch)), index_N[batch]]
                    agreement = float(np.abs(sampled - old_logp_N[batch]).max())
                    check_agreement(agreement, config.agreement, agent)
                last, grad_logp_NM = losses.menu_loss(
                    logp_NM,
                    index_N[batch],
                    old_logp_N[batch],
                    advantage_N[batch],
                    losses.weights(episode_N[batch], config.reduction),
                    clip=config.clip,
                    beta=config.beta,
                    ref_NM=ref_NM[batch],
                    entropy=config.entropy,
                )
                first = first or last
                grad_NM = losses.through_log_softmax(grad_logp_NM, logp_NM) / self._temperature
                grad = np.zeros_like(table.logits)
                offered = column_NM[batch] >= 0
                rows_NM = np.broadcast_to(row_N[batch][:, None], offered.shape)
                np.add.at(grad, (rows_NM[offered], column_NM[batch][offered]), grad_NM[offered])
                grad_norm = float(np.linalg.norm(grad))
                check_finite("the gradient norm", grad_norm, agent)
                table.step(grad * min(1.0, config.max_grad_norm / (grad_norm + 1e-6)), config.lr or 0.0)
                steps += 1
        seconds = time.perf_counter() - started
        return UpdateReport(len(samples), steps, first or last, last, agreement, grad_norm, seconds)

    @property
    def jobs(self) -> tuple[tuple[str, ...], ...]:
        return tuple((agent,) for agent in self._agents)

    def update_together(
        self, samples: Mapping[str, Sequence[Sample]], round_number: int, go_on: GoOn = always
    ) -> dict[str, UpdateReport]:
        return {agent: self.update(agent, own, round_number, go_on) for agent, own in samples.items()}

    def export(self, agent: str) -> Adapter:
        table = self._tables[agent]
        metadata = {"rows": json.dumps(table.rows), "columns": json.dumps(table.columns)}
        weights = canonical(save_tensors({"logits": table.logits}, metadata=metadata))
        return Adapter(agent, self._base_digest, CONFIG_JSON, weights)

    def load_adapter(self, agent: str, config_json: str, weights: bytes) -> None:
        if config_json != CONFIG_JSON:
            raise CheckpointError(f"{agent}: the adapter is no table ({config_json}); resume with the backbone it had")
        rows, table_columns = table_keys(weights)
        table = self._tables[agent]
        table.rows, table.columns = rows, table_columns
        table.logits = load_tensors(weights)["logits"]
        table.m, table.v, table.t = np.zeros_like(table.logits), np.zeros_like(table.logits), 0

    def optimiser_state(self, agent: str) -> bytes:
        table = self._tables[agent]
        buffer = io.BytesIO()
        np.savez(buffer, m=table.m, v=table.v, t=np.array(table.t))
        return buffer.getvalue()

    def load_optimiser_state(self, agent: str, state: bytes) -> None:
        table = self._tables[agent]
        with np.load(io.BytesIO(state), allow_pickle=False) as data:
            table.m, table.v, table.t = data["m"], data["v"], int(data["t"])
        if table.m.shape != table.logits.shape:
            raise CheckpointError(f"{agent}: optimiser state {table.m.shape} does not fit table {table.logits.shape}")


def table_keys(weights: bytes) -> tuple[list[str], list[str]]:
    """Row and column keys from a table adapter's safetensors metadata."""
    metadata = header_of(weights)["__metadata__"]
    return json.loads(metadata["rows"]), json.loads(metadata["columns"])
