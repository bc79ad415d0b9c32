"""From hidden states to menu policies: the head restricted to the offered labels, in float32.

bfloat16 logits near 30 come in steps of 1/8, so the rows of the head that are needed are multiplied in float32 whatever
the base's type. `label_mass` reads the full vocabulary once per decision, in the base's own type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones.base import Scores
from potluck_policy_server.lm.engine import Engine, Job
from potluck_policy_server.lm.trie import label_logprobs


@dataclass(frozen=True, slots=True)
class LmDecision:
    """A rendered decision."""

    job: Job
    paths: tuple[tuple[int, ...], ...]
    temperature: float
    prompt_digest: str
    wants_tokens: bool

    @property
    def prompt_tokens(self) -> int:
        """Tokens of prefix and suffix."""
        return len(self.job.prefix) + len(self.job.suffix)

    def tokens(self) -> pb.Tokens | None:
        """The token ids, where asked for."""
        if not self.wants_tokens:
            return None
        labels = [pb.TokenPath(ids=path) for path in self.paths]
        return pb.Tokens(prefix=self.job.prefix, suffix=self.job.suffix, labels=labels)


class Head:
    """The output layer, with the cap on logits that some architectures have."""

    def __init__(self, weight: Tensor, softcap: float | None = None) -> None:
        self._weight = weight
        self._softcap = softcap

    def logits(self, hidden: Tensor, ids: Sequence[int]) -> Tensor:
        """Logits of chosen tokens, float32."""
        index = torch.tensor(ids, device=self._weight.device)
        return self._cap(hidden.float() @ self._weight[index].float().T)

    def log_total(self, hidden: Tensor) -> Tensor:
        """Log of the sum over the whole vocabulary, float32."""
        return self._cap((hidden @ self._weight.T).float()).logsumexp(-1)

    def _cap(self, logits: Tensor) -> Tensor:
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap


class Scorer:
    """Menu policies of a causal language model."""

    def __init__(self, engine: Engine, head: Head, label_mass: bool) -> None:
        self._engine = engine
        self._head = head
        self._label_mass = label_mass

    @torch.inference_mode()
    def score(self, decisions: Sequence[LmDecision]) -> list[Scores]:
        """One forward for all."""
        outcomes = self._engine.hidden([decision.job for decision in decisions])
        states = [outcome.states for outcome in outcomes]
        wanted = sorted({t for d in decisions for t in _wanted(d.job)})
        column = {token: index for index, token in enumerate(wanted)}
        logits = self._head.logits(torch.cat(states), wanted).double().cpu().numpy()
        totals: Any = [float("nan")] * len(decisions)
        if self._label_mass:
            totals = self._head.log_total(torch.stack([state[0] for state in states])).double().cpu().tolist()
        results, start = [], 0
        for decision, outcome, total in zip(decisions, outcomes, totals, strict=True):
            rows = logits[start : start + len(outcome.states)]
            start += len(outcome.states)
            places = {node: place for place, node in enumerate(decision.job.reads)}
            trie = decision.job.trie
            branches = [rows[places[b.node], [column[token] for token in b.children]] for b in trie.branches]
            first = rows[0, [column[token] for token in trie.first_tokens]]
            mass = float(np.exp(first - total).sum())
            logprobs = label_logprobs(trie, branches, decision.temperature)
            results.append(Scores(logprobs, mass, outcome.adapter_digest))
        return results


def _wanted(job: Job) -> set[int]:
    return set(job.trie.first_tokens).union(*(branch.children for branch in job.trie.branches))
