"""Linear layers under several adapters in one pass: rows of one adapter lie together and get its weights.

Three kinds of weights exist. The frozen base; base and LoRA apart (the base's product once for all rows, then each
adapter's two thin products on its own rows); and merged, a private copy W + B A, which is faster where the base is
small. Merging happens in float32 only and into new memory, so the base never drifts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from potluck.decoder.architecture import LINEARS, Decoder, Linear
from potluck.decoder.matrix import Matrix

Lows = tuple[Tensor | None, ...]
"""For each group of rows what A made of them, where base and LoRA are apart."""


class Pair(NamedTuple):
    """The update of one linear layer: y += (x A^T) B^T, with the scale already in B."""

    a: Tensor
    b: Tensor


class Update(NamedTuple):
    """A B of a stacked linear."""

    b: Matrix
    ranks: slice
    """Which columns of x A^T it reads."""
    outputs: slice
    """Which columns of y it adds to."""


class Delta(NamedTuple):
    """What LoRA adds to a stacked linear: y += (x A^T) B^T. All A are stacked by rank, so x is read once."""

    a: Matrix
    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """What one adapter (or none) puts in the place of each stacked linear of the decoder, in the decoder's order."""

    merged: tuple[Matrix, ...] | None = None
    deltas: tuple[Delta | None, ...] | None = None
    digest: str = ""
    """The adapter's; empty for the frozen base. Every answer is labelled with it."""
    lowest: int = 1 << 30
    """Number of the lowest layer that differs from the frozen base; the layers below are the trunk."""

    @property
    def size(self) -> int:
        """Bytes beyond the base and the adapter itself."""
        return sum(matrix.size for matrix in self.merged or ())


FROZEN = Weights()


class Group(NamedTuple):
    """Rows [start, end) that belong to one adapter."""

    weights: Weights
    start: int
    end: int


def runs(keys: Sequence[int], ends: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbours of one key: the first one's number, and from where to where their rows lie, given where each's end."""
    number = start = end = 0
    for place, (key, own) in enumerate(zip(keys, ends, strict=True)):
        if key != keys[number]:
            yield number, start, end
            number, start = place, end
        end = int(own)
    if keys:
        yield number, start, end


def attach(decoder: Decoder, digest: str, pairs: Mapping[str, Pair], merge: bool) -> Weights:
    """An adapter's weights for a decoder, merged or apart. Its pairs by module name, "model.layers.0.mlp.up_proj"."""
    own = [_pairs(linear, pairs) for linear in decoder.linears]
    lowest = min((index // LINEARS for index, found in enumerate(own) if found), default=1 << 30)
    if not merge:
        deltas = tuple(_delta(linear, found) for linear, found in zip(decoder.linears, own, strict=True))
        return Weights(deltas=deltas, digest=digest, lowest=lowest)
    merged = tuple(_merge(linear, found) for linear, found in zip(decoder.linears, own, strict=True))
    return Weights(merged=merged, digest=digest, lowest=lowest)


def apply(
    linear: Linear, index: int, x: Tensor, groups: Sequence[Group], onto: Tensor | None = None
) -> tuple[Tensor, Lows]:
    """The stacked linear number `index` for rows that are grouped by adapter, added to `onto` if it is given."""
    if all(group.weights.merged is None for group in groups):
        y = linear.matrix.product(x, onto)
        return y, tuple(
            None if group.weights.deltas is None else add_delta(y, x, group, group.weights.deltas[index])
            for group in groups
        )
    if len(groups) == 1:
        return _whole(groups[0].weights, linear, index).product(x, onto), (None,)
    parts = []
    for weights, start, end in groups:
        own = None if onto is None else onto[start:end]
        parts.append(_whole(weights, linear, index).product(x[start:end], own))
    return torch.cat(parts), (None,) * len(groups)


def _whole(weights: Weights, linear: Linear, index: int) -> Matrix:
    return linear.matrix if weights.merged is None else weights.merged[index]


def add_delta(y: Tensor, x: Tensor, group: Group, delta: Delta | None) -> Tensor | None:
    """Adds a group's update to its rows of y; what A made of x's rows."""
    if delta is None:
        return None
    rows = slice(group.start, group.end)
    low = delta.a.product(x[rows])
    for b, ranks, outputs in delta.updates:
        b.add(low[:, ranks], y[rows, outputs])
    return low


def _pairs(linear: Linear, pairs: Mapping[str, Pair]) -> dict[int, Pair]:
    """Pairs by the output row of the stacked linear at which their layer begins."""
    found, start = {}, 0
    for name, size in zip(linear.names, linear.sizes, strict=True):
        if name in pairs:
            found[start] = pairs[name]
        start += size
    return found


def _delta(linear: Linear, pairs: Mapping[int, Pair]) -> Delta | None:
    return delta(linear.weight, pairs, apart=linear.weight.device.type == "cpu") if pairs else None


def delta(weight: Tensor, pairs: Mapping[int, Pair], *, apart: bool) -> Delta:
    """The update of a stacked weight by pairs, by their first row in it. `apart`: each B by itself, as is best on a
    CPU; else all in one block diagonal, where a call costs more than multiplying zeros."""
    places, rank = list[tuple[Tensor, slice, slice]](), 0
    for start, pair in pairs.items():
        places.append((pair.b, slice(rank, rank + pair.a.shape[0]), slice(start, start + pair.b.shape[0])))
        rank += pair.a.shape[0]
    if not apart:
        whole = weight.new_zeros(weight.shape[0], rank)
        for b, ranks, outputs in places:
            whole[outputs, ranks] = b
        places = [(whole, slice(0, rank), slice(0, len(whole)))]
    updates = tuple(Update(Matrix(b, pack=True), ranks, outputs) for b, ranks, outputs in places)
    return Delta(Matrix(torch.cat([pair.a for pair in pairs.values()]), pack=True), updates)


def merged_weight(linear: Linear, pairs: Mapping[str, Pair]) -> Tensor:
    """The stacked weight with an adapter added, in new memory; pairs are named by module."""
    return _merged(linear, _pairs(linear, pairs))


def _merged(linear: Linear, pairs: Mapping[int, Pair]) -> Tensor:
    weight = linear.weight.clone()
    for start, pair in pairs.items():
        weight[start : start + pair.b.shape[0]].addmm_(pair.b, pair.a)
    return weight


def _merge(linear: Linear, pairs: Mapping[int, Pair]) -> Matrix:
    return Matrix(_merged(linear, pairs), linear.bias, pack=True) if pairs else linear.matrix
