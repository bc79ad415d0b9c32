"""The packed forward: many decisions of any mix of adapters in one pass over a plain decoder, without padded tokens.

All new tokens stand in one matrix, grouped by adapter; only attention sees the decisions apart. What a layer computes
is told in `potluck.decoder`, where the trainer's learner finds it too. Keys and values of the rules, and of a beginning
of the state that was computed before, come from caches. The last layer computes output and feed-forward for the rows
that are read only (the prompt's last token and the trie's branching nodes). Verified against transformers' forward when
a backbone is loaded, and by a test.

In the exact mode every operation treats a row without regard to the others, so a decision's
bits depend neither on what else is in the batch nor on what came from a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from potluck.decoder import masks
from potluck.decoder.architecture import Decoder
from potluck.decoder.attention import Heads, View, attend, padded_keys, padded_slots, view
from potluck.decoder.layers import Angles, finish, norm, project
from potluck.decoder.trie import NO_LABELS, Trie
from potluck.decoder.weights import FROZEN, Group, Weights, runs

Index = NDArray[np.int64]


class Trunk(NamedTuple):
    """A text through the lowest layers, which no adapter touches."""

    kv: Tensor
    """Keys and values [trunk layers, tokens, width]."""
    states: Tensor
    """What enters the layer above [tokens, hidden width]."""


class Row(NamedTuple):
    """One decision."""

    weights: Weights
    prefix: tuple[Tensor, ...]
    """Keys and values of the rules, [layers, tokens, width], the lowest layers' first."""
    suffix: tuple[int, ...]
    trie: Trie
    reads: tuple[int, ...]
    """Nodes whose hidden states are wanted, ascending."""
    begin: Tensor | None = None
    """Keys and values [layers, tokens, width] of the suffix's first tokens, fewer than all."""

    @property
    def known(self) -> int:
        """Tokens of the suffix that need not be computed."""
        return 0 if self.begin is None else int(self.begin.shape[1])


class Output(NamedTuple):
    """What a batch came to."""

    states: Tensor
    """Final hidden states [reads, width], row after row."""
    served: tuple[str, ...]
    """For each row the digest of the weights that its tokens went through."""
    kv: Tensor
    """Keys and values [layers, rows, key slots, width]."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything about a batch that does not depend on the layer."""

    tokens: Tensor
    cos: Tensor
    sin: Tensor
    groups: tuple[Group, ...]
    view: View
    cache: Tensor
    """Keys and values [layers, decisions * key slots, width], what was known before filled in."""
    places: Tensor
    """For each token its row in the cache."""
    reads: Tensor
    read_view: View
    read_groups: tuple[Group, ...]
    served: tuple[str, ...]


class PackedDecoder:
    """A plain decoder's forward over packed rows."""

    def __init__(self, decoder: Decoder, exact: bool = True) -> None:
        self.decoder = decoder
        self.exact = exact
        self.dtype = decoder.embed.dtype
        self.device = decoder.embed.device
        self.heads = Heads(decoder.heads, decoder.kv_heads, decoder.head_dim)
        self.width = 2 * decoder.kv_heads * decoder.head_dim
        """Numbers per token and layer: keys, then values."""
        self._angles = Angles(decoder)

    def trunk(self, ids: Sequence[int], layers: int) -> Trunk:
        """A text through the lowest layers of the frozen base."""
        batch = self._batch([Row(FROZEN, (), tuple(ids), NO_LABELS, ())])
        states = self._layers(0, layers, functional.embedding(batch.tokens, self.decoder.embed), batch)
        return Trunk(batch.cache[:layers, : len(ids)].clone(), states)

    def prefix(self, ids: Sequence[int], weights: Weights, trunk: Trunk | None = None) -> Tensor:
        """Keys and values of a text under one adapter, [layers above the trunk, tokens, width]."""
        batch = self._batch([Row(weights, (), tuple(ids), NO_LABELS, ())])
        first = 0 if trunk is None else int(trunk.kv.shape[0])
        self._run(batch, first, None if trunk is None else trunk.states)
        return batch.cache[first:, : len(ids)].clone()

    def hidden(self, rows: Sequence[Row]) -> Output:
        """Final hidden states and whose they are. Rows of one adapter must be neighbours."""
        batch = self._batch(rows)
        states = self._run(batch)
        return Output(states, batch.served, batch.cache.view(len(self.decoder.layers), len(rows), -1, self.width))

    def _run(self, batch: Batch, first: int = 0, states: Tensor | None = None) -> Tensor:
        h = functional.embedding(batch.tokens, self.decoder.embed) if states is None else states
        h = self._layers(first, len(self.decoder.layers) - 1, h, batch)
        h = self._last(len(self.decoder.layers) - 1, h, batch)
        return norm(h, self.decoder.final_norm, self.decoder.eps)

    def _layers(self, first: int, end: int, h: Tensor, batch: Batch) -> Tensor:
        for number in range(first, end):
            mixed = attend(*self._attended(number, h, batch), batch.view, self.heads, self.exact)
            h = finish(self.decoder, number, h, mixed, batch.groups).out
        return h

    def _last(self, number: int, h: Tensor, batch: Batch) -> Tensor:
        q, kv = self._attended(number, h, batch)
        if not len(batch.reads):
            return h[:0]
        q, h = q.index_select(0, batch.reads), h.index_select(0, batch.reads)
        mixed = attend(q, kv, batch.read_view, self.heads, self.exact)
        return finish(self.decoder, number, h, mixed, batch.read_groups).out

    def _attended(self, number: int, h: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Queries of all rows [rows, heads * dim], and the layer's keys and values, those of all rows stored."""
        qkv = project(self.decoder, number, h, (batch.cos, batch.sin), batch.groups).qkv
        cache = batch.cache[number]
        cache.index_copy_(0, batch.places, qkv[:, -self.width :])
        decisions, _, keys = batch.view.mask.shape
        return qkv[:, : -self.width], cache.view(decisions, keys, 2, self.heads.kv, self.heads.dim)

    def _batch(self, rows: Sequence[Row]) -> Batch:
        """Lays out rows: tokens are packed, keys lie at their positions."""
        tries = [row.trie for row in rows]
        before = np.array([sum(part.shape[1] for part in row.prefix[:1]) for row in rows])
        firsts = before + np.array([row.known for row in rows])
        ends = before + np.array([len(row.suffix) for row in rows])
        counts = ends - firsts + np.array([len(trie.tokens) for trie in tries])
        starts = np.concatenate([[0], np.cumsum(counts)])
        slots, keys = padded_slots(int(counts.max())), padded_keys(int((firsts + counts).max()), self.exact)
        mask = masks.mask(tries, firsts, ends, slots, keys)
        owner = np.repeat(np.arange(len(rows)), counts)
        places = np.arange(len(owner)) - starts[owner] + firsts[owner] + keys * owner
        tokens = np.concatenate([np.array(row.suffix[row.known :] + row.trie.tokens, np.int64) for row in rows])
        read_counts = np.array([len(row.reads) for row in rows])
        read_starts = np.concatenate([[0], np.cumsum(read_counts)])
        reads = [int(ends[i] - firsts[i]) - 1 + node for i, row in enumerate(rows) for node in row.reads]
        read_owner = np.repeat(np.arange(len(rows)), read_counts)
        read_mask = np.zeros((len(rows), padded_slots(int(read_counts.max())), keys), np.float32)
        read_mask[read_owner, np.arange(len(reads)) - read_starts[read_owner]] = mask[
            read_owner, np.array(reads, np.int64)
        ]
        positions = masks.positions(tries, firsts, ends)
        cos, sin = self._angles.at(self._tensor(positions), int(positions.max()))
        groups, read_groups = _groups(rows, starts), _groups(rows, read_starts)
        return Batch(
            tokens=self._tensor(tokens),
            cos=cos,
            sin=sin,
            groups=groups,
            view=view(counts, mask, self.heads, self.device),
            cache=self._filled(rows, keys, firsts + counts),
            places=self._tensor(places),
            reads=self._tensor(np.array(reads, np.int64) + starts[read_owner]),
            read_view=view(read_counts, read_mask, self.heads, self.device),
            read_groups=read_groups,
            served=_served(rows, groups, starts, read_groups, read_starts),
        )

    def _filled(self, rows: Sequence[Row], keys: int, used: Index) -> Tensor:
        """The batch's cache with what is known before, and zeros behind each decision's keys."""
        size = (len(self.decoder.layers), len(rows), keys, self.width)
        cache = torch.empty(size, dtype=self.dtype, device=self.device)
        start = 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or rows[end].prefix is not rows[start].prefix:
                layer = 0
                for part in rows[start].prefix:
                    cache[layer : layer + part.shape[0], start:end, : part.shape[1]] = part[:, None]
                    layer += part.shape[0]
                start = end
        for index, row in enumerate(rows):
            if row.begin is not None:
                first = row.prefix[0].shape[1] if row.prefix else 0
                cache[:, index, first : first + row.known] = row.begin
        flat = cache.view(len(self.decoder.layers), -1, self.width)
        behind = np.flatnonzero(np.arange(keys) >= used[:, None])
        return flat.index_fill_(1, self._tensor(behind), 0)

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def _groups(rows: Sequence[Row], starts: Index) -> tuple[Group, ...]:
    found = runs([id(row.weights) for row in rows], starts[1:])
    return tuple(Group(rows[number].weights, start, end) for number, start, end in found)


def _served(
    rows: Sequence[Row], groups: Sequence[Group], starts: Index, read_groups: Sequence[Group], read_starts: Index
) -> tuple[str, ...]:
    """Whose weights each row really meets, read off the groups that the products follow, not off the request."""
    found = []
    for index, row in enumerate(rows):
        names = _owners(groups, int(starts[index]), int(starts[index + 1]))
        if row.reads:
            names |= _owners(read_groups, int(read_starts[index]), int(read_starts[index + 1]))
        found.append("|".join(sorted(names)))
    return tuple(found)


def _owners(groups: Sequence[Group], start: int, end: int) -> set[str]:
    return {group.weights.digest for group in groups if group.start < end and start < group.end}
