"""From hidden states to menu policies: the head restricted to the offered labels, in float32.

bfloat16 logits near 30 come in steps of 1/8, so the rows of the head that are needed are multiplied in float32 whatever
the base's type. `label_mass` reads the full vocabulary once per decision, in the base's own type.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.decoder import head
from potluck.decoder.matrix import Matrix
from potluck.decoder.trie import Floats, label_logprobs
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones.base import Scores
from potluck_policy_server.lm.engine import Engine, Job

ROWS_AT_ONCE = 64


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
    """The output layer, with the cap on logits that some architectures have. A row's bits depend on no other row."""

    def __init__(self, weight: Tensor, softcap: float | None = None, pack: bool = False) -> None:
        self._weight = weight
        self._softcap = softcap
        self._matrix = Matrix(weight, pack=pack)

    def logits(self, hidden: Tensor, rows: Sequence[int], ids: Sequence[int]) -> Tensor:
        """Logits of one chosen token for each of the rows, float32."""
        at, tokens = torch.tensor([rows, ids], device=self._weight.device)
        return self._cap(head.logits(hidden, self._weight, at, tokens))

    def log_total(self, hidden: Tensor) -> Tensor:
        """Log of the sum over the whole vocabulary, float32."""
        parts = [
            self._cap(self._matrix.product(part).float()).logsumexp(-1) for part in torch.split(hidden, ROWS_AT_ONCE)
        ]
        return torch.cat(parts)

    def _cap(self, logits: Tensor) -> Tensor:
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap


class Scorer:
    """Menu policies of a causal language model."""

    def __init__(self, engine: Engine, head: Head, label_mass: bool) -> None:
        self._engine = engine
        self._head = head
        self._label_mass = label_mass

    def score(self, decisions: Sequence[LmDecision]) -> list[Scores]:
        """One forward for all menus of more than one item. A menu of one is certain whatever the weights: nothing is
        computed for it, and its label_mass is NaN."""
        results = [_certain(one) for one in decisions]
        open_menus = [place for place, one in enumerate(decisions) if len(one.paths) > 1]
        for place, scores in zip(open_menus, self._forward([decisions[place] for place in open_menus]), strict=True):
            results[place] = scores
        return results

    @torch.inference_mode()
    def _forward(self, decisions: Sequence[LmDecision]) -> list[Scores]:
        if not decisions:
            return []
        outcomes = self._engine.hidden([decision.job for decision in decisions])
        states = torch.cat([outcome.states for outcome in outcomes])
        wanted = [_wanted(decision.job) for decision in decisions]
        starts = list(itertools.accumulate((len(outcome.states) for outcome in outcomes), initial=0))
        rows = [start + place for start, pairs in zip(starts, wanted, strict=False) for place, _ in pairs]
        logits = self._head.logits(states, rows, [token for pairs in wanted for _, token in pairs])
        values = iter(np.split(logits.double().cpu().numpy(), np.cumsum([len(pairs) for pairs in wanted])[:-1]))
        totals: Any = [float("nan")] * len(decisions)
        if self._label_mass:
            totals = self._head.log_total(states[starts[:-1]]).double().cpu().tolist()
        results = []
        for decision, outcome, total in zip(decisions, outcomes, totals, strict=True):
            trie, own, branches, end = decision.job.trie, next(values), list[Floats](), 0
            for branch in trie.branches:
                start, end = end, end + len(branch.children)
                branches.append(own[start:end])
            mass = float(np.exp(own[end:] - total).sum())
            logprobs = label_logprobs(trie, branches, decision.temperature)
            results.append(Scores(logprobs, mass, outcome.adapter_digest))
        return results


def _certain(decision: LmDecision) -> Scores:
    adapter = decision.job.adapter
    return Scores(np.zeros(1), float("nan"), adapter.digest if adapter else "")


def _wanted(job: Job) -> list[tuple[int, int]]:
    """(read, token) of every logit: those of the branches one after the other, then the first tokens."""
    places = {node: place for place, node in enumerate(job.reads)}
    pairs = [(places[branch.node], token) for branch in job.trie.branches for token in branch.children]
    return pairs + [(0, token) for token in job.trie.first_tokens]
