"""The packed forward: many decisions of any mix of adapters in one pass over a plain decoder, without padded tokens.

All suffix tokens stand in one matrix, grouped by adapter; only attention sees the decisions apart. Keys and values of
the prefix come from a cache. The last layer computes queries, output and feed-forward for the rows that are read only
(the prompt's last token and the trie's branching nodes). Verified against transformers' forward when a backbone is
loaded, and by a test.
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

from potluck_policy_server.lm.architecture import Decoder, Layer
from potluck_policy_server.lm.trie import Trie
from potluck_policy_server.lm.weights import Group, Weights, apply

Index = NDArray[np.int64]


class Row(NamedTuple):
    """One decision."""

    weights: Weights
    prefix: Tensor
    """Keys and values of the rules: [layers, 2, kv_heads, tokens, head_dim]."""
    suffix: tuple[int, ...]
    trie: Trie
    reads: tuple[int, ...]
    """Nodes whose hidden states are wanted, ascending."""


class Output(NamedTuple):
    """What a batch came to."""

    states: Tensor
    """Final hidden states [reads, width], row after row."""
    served: tuple[str, ...]
    """For each row the digest of the weights that its tokens went through."""


class Places(NamedTuple):
    """Where packed rows lie in the padded [decision, slot] grid."""

    row: Tensor
    slot: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything about a batch that does not depend on the layer."""

    tokens: Tensor
    cos: Tensor
    sin: Tensor
    places: Places
    groups: tuple[Group, ...]
    mask: Tensor
    cache: Tensor
    """[layers, 2, decisions, kv_heads, prefix + slots, head_dim], the prefix filled in."""
    prefix_slots: int
    reads: Tensor
    read_places: Places
    read_groups: tuple[Group, ...]
    read_mask: Tensor
    served: tuple[str, ...]


class PackedDecoder:
    """A plain decoder's forward over packed rows."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.dtype = decoder.embed.dtype
        self.device = decoder.embed.device
        self._cos, self._sin = self._rotary(512)

    def prefix(self, ids: Sequence[int], weights: Weights) -> Tensor:
        """Keys and values of a prefix under one adapter."""
        empty = self._kv(1, 0)[:, :, 0]
        trie = Trie((), (), (), (), (), ())
        batch = self._batch([Row(weights, empty, tuple(ids), trie, ())])
        self._run(batch)
        return batch.cache[:, :, 0].clone()

    def hidden(self, rows: Sequence[Row]) -> Output:
        """Final hidden states and whose they are. Rows of one adapter must be neighbours."""
        batch = self._batch(rows)
        return Output(self._run(batch), batch.served)

    def _run(self, batch: Batch) -> Tensor:
        h = self.decoder.embed[batch.tokens]
        for number, layer in enumerate(self.decoder.layers[:-1]):
            h = self._layer(layer, number, h, batch)
        h = self._last(self.decoder.layers[-1], len(self.decoder.layers) - 1, h, batch)
        return self._norm(h, self.decoder.final_norm)

    def _layer(self, layer: Layer, number: int, h: Tensor, batch: Batch) -> Tensor:
        width = self.decoder.heads * self.decoder.head_dim
        x = self._norm(h, layer.input_norm)
        qkv = apply(layer.qkv, 4 * number, x, batch.groups)
        q, k = self._heads(layer, qkv, batch.cos, batch.sin)
        self._store(batch, number, k, qkv[:, width + k.shape[1] * k.shape[2] :])
        mixed = self._attend(q, batch.places, batch, number, batch.mask)
        return self._feed_forward(
            layer, number, h + apply(layer.out, 4 * number + 1, mixed, batch.groups), batch.groups
        )

    def _last(self, layer: Layer, number: int, h: Tensor, batch: Batch) -> Tensor:
        heads, width = self.decoder.heads, self.decoder.heads * self.decoder.head_dim
        x = self._norm(h, layer.input_norm)
        kv = apply(layer.qkv, 4 * number, x, batch.groups, start=width)
        half = kv.shape[1] // 2
        k = self._turn(layer, kv[:, :half], batch.cos, batch.sin, slice(heads, None))
        self._store(batch, number, k, kv[:, half:])
        if not len(batch.reads):
            return h[:0]
        groups, reads = batch.read_groups, batch.reads
        q = apply(layer.qkv, 4 * number, x[reads], groups, end=width)
        q = self._turn(layer, q, batch.cos[reads], batch.sin[reads], slice(0, heads))
        mixed = self._attend(q, batch.read_places, batch, number, batch.read_mask)
        return self._feed_forward(layer, number, h[reads] + apply(layer.out, 4 * number + 1, mixed, groups), groups)

    def _feed_forward(self, layer: Layer, number: int, h: Tensor, groups: tuple[Group, ...]) -> Tensor:
        x = self._norm(h, layer.post_norm)
        gate, up = apply(layer.gate_up, 4 * number + 2, x, groups).chunk(2, dim=-1)
        return h + apply(layer.down, 4 * number + 3, functional.silu(gate) * up, groups)

    def _heads(self, layer: Layer, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        heads, both = self.decoder.heads, self.decoder.heads + self.decoder.kv_heads
        turned = self._turn(layer, qkv[:, : both * self.decoder.head_dim], cos, sin, slice(0, both))
        return turned[:, :heads], turned[:, heads:]

    def _turn(self, layer: Layer, flat: Tensor, cos: Tensor, sin: Tensor, heads: slice) -> Tensor:
        """Norm per head, where there is one, and rotary positions."""
        x = flat.view(flat.shape[0], -1, self.decoder.head_dim)
        if layer.head_norm is not None:
            x = self._norm(x, None) * layer.head_norm[heads]
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.decoder.eps)
        return scaled.to(self.dtype) if weight is None else weight * scaled.to(self.dtype)

    def _store(self, batch: Batch, number: int, k: Tensor, v: Tensor) -> None:
        row, slot = batch.places
        for half, values in enumerate((k, v.view(k.shape))):
            batch.cache[number, half].transpose(1, 2)[row, slot + batch.prefix_slots] = values

    def _attend(self, q: Tensor, places: Places, batch: Batch, number: int, mask: Tensor) -> Tensor:
        kv_heads, dim = self.decoder.kv_heads, self.decoder.head_dim
        repeat = self.decoder.heads // kv_heads
        rows, slots, seen = mask.shape
        grid = q.new_zeros(rows, slots, self.decoder.heads, dim)
        grid[places.row, places.slot] = q * dim**-0.5
        queries = grid.view(rows, slots, kv_heads, repeat, dim).permute(0, 2, 3, 1, 4).reshape(rows, kv_heads, -1, dim)
        keys, values = batch.cache[number, 0], batch.cache[number, 1]
        weights = (queries @ keys.transpose(2, 3)).view(rows, kv_heads, repeat, slots, seen)
        weights = (weights + mask[:, None, None]).float().softmax(-1).to(q.dtype)
        mixed = (weights.view(rows, kv_heads, -1, seen) @ values).view(rows, kv_heads, repeat, slots, dim)
        return mixed.permute(0, 3, 1, 2, 4)[places.row, places.slot].reshape(q.shape[0], -1)

    def _kv(self, rows: int, slots: int) -> Tensor:
        d = self.decoder
        size = (len(d.layers), 2, rows, d.kv_heads, slots, d.head_dim)
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    def _batch(self, rows: Sequence[Row]) -> Batch:
        prefixes = np.array([row.prefix.shape[3] for row in rows])
        suffixes = np.array([len(row.suffix) for row in rows])
        lengths = suffixes + np.array([len(row.trie.tokens) for row in rows])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.concatenate([np.array(row.suffix + row.trie.tokens, np.int64) for row in rows])
        owner = np.repeat(np.arange(len(rows)), lengths)
        slot = np.arange(len(tokens)) - starts[:-1][owner]
        positions = prefixes[owner] + _depths(rows, slot)
        reads = [suffixes[i] - 1 + node for i, row in enumerate(rows) for node in row.reads]
        read_owner = np.repeat(np.arange(len(rows)), [len(row.reads) for row in rows])
        read_rows = np.array(reads, np.int64) + starts[:-1][read_owner]
        read_slot = np.array([k for row in rows for k in range(len(row.reads))], np.int64)
        mask = _mask(rows, prefixes, suffixes, int(lengths.max()))
        read_mask = np.zeros((len(rows), max((len(row.reads) for row in rows), default=0), mask.shape[2]), np.float32)
        read_mask[read_owner, read_slot] = mask[read_owner, np.array(reads, np.int64)]
        cos, sin = self._angles(positions)
        groups, read_starts = _groups(rows, starts), np.concatenate([[0], np.cumsum([len(row.reads) for row in rows])])
        read_groups = _groups(rows, read_starts)
        return Batch(
            tokens=self._tensor(tokens),
            cos=cos,
            sin=sin,
            places=Places(self._tensor(owner), self._tensor(slot)),
            groups=groups,
            mask=self._tensor(mask).to(self.dtype),
            cache=self._fill(rows, int(prefixes.max()), int(lengths.max())),
            prefix_slots=int(prefixes.max()),
            reads=self._tensor(read_rows),
            read_places=Places(self._tensor(read_owner), self._tensor(read_slot)),
            read_groups=read_groups,
            read_mask=self._tensor(read_mask).to(self.dtype),
            served=_served(rows, groups, starts, read_groups, read_starts),
        )

    def _fill(self, rows: Sequence[Row], prefix_slots: int, slots: int) -> Tensor:
        cache = self._kv(len(rows), prefix_slots + slots)
        start = 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or rows[end].prefix is not rows[start].prefix:
                prefix = rows[start].prefix
                cache[:, :, start:end, :, : prefix.shape[3]] = prefix[:, :, None]
                start = end
        return cache

    def _angles(self, positions: Index) -> tuple[Tensor, Tensor]:
        need = int(positions.max()) + 1
        if need > self._cos.shape[0]:
            self._cos, self._sin = self._rotary(1 << need.bit_length())
        index = self._tensor(positions)
        return self._cos[index], self._sin[index]

    def _rotary(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [position, 1, head_dim / 2]; transformers repeats them in both halves."""
        positions = torch.arange(length, device=self.device)[None]
        cos, sin = self.decoder.rotary(self.decoder.embed[:1], positions)
        half = self.decoder.head_dim // 2
        return cos[0, :, None, :half].contiguous(), sin[0, :, None, :half].contiguous()

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def _depths(rows: Sequence[Row], slot: Index) -> Index:
    """Distance from the suffix's first token: the slot, but for extra tokens their depth below the root."""
    if not any(row.trie.tokens for row in rows):
        return slot
    parts = [
        np.concatenate([np.arange(len(row.suffix)), len(row.suffix) - 1 + np.array(row.trie.depths, np.int64)])
        for row in rows
    ]
    return np.concatenate(parts).astype(np.int64)


def _mask(rows: Sequence[Row], prefixes: Index, suffixes: Index, slots: int) -> NDArray[np.float32]:
    """[decision, slot, prefix + slot]: 0 where a token is seen, -inf elsewhere."""
    width = int(prefixes.max())
    before = np.arange(width) < prefixes[:, None]
    seen = np.empty((len(rows), slots, width + slots), bool)
    seen[:, :, :width] = before[:, None]
    seen[:, :, width:] = np.tri(slots, dtype=bool)
    for index, row in enumerate(rows):
        first = int(suffixes[index])
        for node, parent in enumerate(row.trie.parents):
            own = seen[index, first + node, width:]
            own[first:] = False
            if parent:
                own[first:] = seen[index, first + parent - 1, width + first :]
            own[first + node] = True
    return np.where(seen, np.float32(0), np.float32(-np.inf))


def _groups(rows: Sequence[Row], starts: Index) -> tuple[Group, ...]:
    found: list[Group] = []
    for index, row in enumerate(rows):
        start, end = int(starts[index]), int(starts[index + 1])
        if found and found[-1].weights is row.weights:
            found[-1] = Group(row.weights, found[-1].start, end)
        else:
            found.append(Group(row.weights, start, end))
    return tuple(found)


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
