"""The exact policy over labels of one or more tokens, with its gradient, as the policy server computes it.

At every branching node of the labels' trie the next-token distribution is restricted to the node's children and divided
by the temperature; a label's probability is the product along its path. `potluck.decoder.trie` says it for both; the
gradient is in closed form.

Axes: N decisions, M menu places, R reads (branching nodes) of all decisions, K logits (children of all reads).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from potluck.decoder import head, trie
from potluck.decoder.trie import Floats, Trie
from potluck_trainer.errors import BackboneError


class Asked(NamedTuple):
    """Which logits decide: of each read's children."""

    tries: tuple[Trie, ...]
    read_K: Tensor
    token_K: Tensor


def trie_of(labels: tuple[tuple[int, ...], ...]) -> Trie:
    """The labels' trie."""
    try:
        return trie.build(labels)
    except ValueError as error:
        message = "two labels share their tokens, or one is the start of another; use the letters scheme"
        raise BackboneError(message) from error


def nodes(one: Trie) -> tuple[int, ...]:
    """The branching nodes of a decision, in the order of its reads."""
    return tuple(branch.node for branch in one.branches)


def asked(tries: Sequence[Trie], device: torch.device) -> Asked:
    """The logits of some decisions whose reads follow each other."""
    branches = [branch for one in tries for branch in one.branches]
    reads = [read for read, branch in enumerate(branches) for _ in branch.children]
    tokens = [token for branch in branches for token in branch.children]
    pair = torch.tensor([reads, tokens], dtype=torch.long, device=device)
    return Asked(tuple(tries), pair[0], pair[1])


def logp(hidden_RD: Tensor | None, weight: Tensor, one: Asked, temperature: float) -> Tensor:
    """logp_NM in float64 on the CPU; -inf beyond the menu. `hidden_RD` is None where nothing branches."""
    if hidden_RD is None:
        return torch.from_numpy(_policies(one.tries, np.zeros(0), temperature)[0])
    return _policy(head.logits(hidden_RD, weight, one.read_K, one.token_K), one.tries, temperature)


class _Policy(Function):
    @staticmethod
    def forward(ctx: Any, logits_K: Tensor, tries: tuple[Trie, ...], temperature: float) -> Tensor:
        out_NM, logs = _policies(tries, logits_K.double().cpu().numpy(), temperature)
        ctx.tries, ctx.temperature, ctx.logs, ctx.like = tries, temperature, logs, (logits_K.dtype, logits_K.device)
        return torch.from_numpy(out_NM)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        logs, parts, grad_NM = iter(ctx.logs), list[Floats](), grads[0].cpu().numpy()
        for n, one in enumerate(ctx.tries):
            sums = [np.zeros(len(branch.children)) for branch in one.branches]
            for m, steps in enumerate(one.steps):
                for branch, child in steps:
                    sums[branch][child] += grad_NM[n, m]
            parts += [(own - np.exp(next(logs)) * own.sum()) / ctx.temperature for own in sums]
        dtype, device = ctx.like
        return torch.from_numpy(np.concatenate(parts)).to(device, dtype), None, None


_policy: Callable[[Tensor, tuple[Trie, ...], float], Tensor] = _Policy.apply


def _policies(tries: Sequence[Trie], logits_K: Floats, temperature: float) -> tuple[Floats, list[Floats]]:
    """logp_NM, and of each branch the log-probabilities of its children."""
    out = np.full((len(tries), max(len(one.steps) for one in tries)), -np.inf)
    sizes = [len(branch.children) for one in tries for branch in one.branches]
    places = itertools.accumulate(sizes, initial=0)
    logs = trie.branch_logprobs([logits_K[start:end] for start, end in itertools.pairwise(places)], temperature)
    first = 0
    for n, one in enumerate(tries):
        out[n, : len(one.steps)] = trie.along(one, logs[first : first + len(one.branches)])
        first += len(one.branches)
    return out, logs
