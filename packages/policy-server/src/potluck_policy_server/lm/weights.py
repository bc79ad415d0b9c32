"""Linear layers under several adapters in one pass: rows of one adapter lie together and get its weights.

Three kinds of weights exist. The frozen base; base and LoRA apart (the base's product once for all rows, then each
adapter's two thin products on its own rows); and merged, a private copy W + B A, which is faster where the base is
small. Merging happens in float32 only and into new memory, so the base never drifts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from potluck_policy_server.lm.architecture import Decoder, Linear
from potluck_policy_server.lm.lora import Lora, Pair


class Delta(NamedTuple):
    """A LoRA pair and the output rows of its stacked linear that it updates."""

    start: int
    end: int
    pair: Pair


@dataclass(frozen=True, slots=True)
class Weights:
    """What one adapter (or none) puts in the place of each stacked linear of the decoder, in the decoder's order."""

    merged: tuple[Tensor, ...] | None = None
    deltas: tuple[tuple[Delta, ...], ...] | None = None
    digest: str = ""
    """The adapter's; empty for the frozen base. Every answer is labelled with it."""

    @property
    def size(self) -> int:
        """Bytes beyond the base and the adapter itself."""
        return sum(weight.numel() * weight.element_size() for weight in self.merged or ())


FROZEN = Weights()


class Group(NamedTuple):
    """Rows [start, end) that belong to one adapter."""

    weights: Weights
    start: int
    end: int


def attach(decoder: Decoder, digest: str, lora: Lora, merge: bool) -> Weights:
    """An adapter's weights for a decoder, merged or apart."""
    deltas = tuple(_deltas(linear, lora.pairs) for linear in decoder.linears)
    if not merge:
        return Weights(deltas=deltas, digest=digest)
    merged = tuple(_merge(linear, own) for linear, own in zip(decoder.linears, deltas, strict=True))
    return Weights(merged=merged, digest=digest)


def apply(linear: Linear, index: int, x: Tensor, groups: Sequence[Group], start: int = 0, end: int = -1) -> Tensor:
    """Outputs [start, end) of the stacked linear number `index` for rows that are grouped by adapter."""
    end = linear.weight.shape[0] if end < 0 else end
    bias = None if linear.bias is None else linear.bias[start:end]
    if all(group.weights.merged is None for group in groups):
        y = functional.linear(x, linear.weight[start:end], bias)
        for group in groups:
            if group.weights.deltas is not None:
                add_deltas(y, x, group, group.weights.deltas[index], start, end)
        return y
    if len(groups) == 1:
        return functional.linear(x, _whole(groups[0].weights, linear, index)[start:end], bias)
    y = x.new_empty(x.shape[0], end - start)
    for group in groups:
        weight = _whole(group.weights, linear, index)[start:end]
        torch.mm(x[group.start : group.end], weight.T, out=y[group.start : group.end])
    return y if bias is None else y.add_(bias)


def _whole(weights: Weights, linear: Linear, index: int) -> Tensor:
    return linear.weight if weights.merged is None else weights.merged[index]


def add_deltas(y: Tensor, x: Tensor, group: Group, deltas: Sequence[Delta], start: int, end: int) -> None:
    """Adds a group's updates of the output columns [start, end) to its rows of y."""
    rows = x[group.start : group.end]
    for delta in deltas:
        if start <= delta.start and delta.end <= end:
            target = y[group.start : group.end, delta.start - start : delta.end - start]
            target.addmm_(rows @ delta.pair.a.T, delta.pair.b.T)


def _deltas(linear: Linear, pairs: Mapping[str, Pair]) -> tuple[Delta, ...]:
    found, start = [], 0
    for name, size in zip(linear.names, linear.sizes, strict=True):
        if name in pairs:
            found.append(Delta(start, start + size, pairs[name]))
        start += size
    return tuple(found)


def _merge(linear: Linear, deltas: Sequence[Delta]) -> Tensor:
    if not deltas:
        return linear.weight
    weight = linear.weight.clone()
    for delta in deltas:
        weight[delta.start : delta.end].addmm_(delta.pair.b, delta.pair.a)
    return weight
