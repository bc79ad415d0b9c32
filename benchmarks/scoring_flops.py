"""Floating-point operations that a batch of decisions needs, counted where the packed engine is asked for it.

Counted, two for a multiply and add: the base's matrix products on the tokens that no cache holds (in the last layer
output and feed-forward for the rows that are read only), LoRA's own products, attention over the keys that a token
sees, and the head over the vocabulary for the labels' mass. Padding, norms, gating and softmax are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from potluck.decoder.weights import Pair
from potluck_policy_server.lm.packed import Output, PackedDecoder, Row


@dataclass(frozen=True, slots=True)
class Needed:
    """What batches need."""

    tokens: int = 0
    base: int = 0
    """FLOPs of the base's products."""
    rest: int = 0
    """FLOPs of LoRA, attention and head."""

    @property
    def flops(self) -> int:
        """Of everything."""
        return self.base + self.rest

    def __add__(self, other: Needed) -> Needed:
        return Needed(self.tokens + other.tokens, self.base + other.base, self.rest + other.rest)


class Counter:
    """Counts what is asked of a packed decoder from now on."""

    def __init__(self, model: PackedDecoder, pairs: Mapping[str, Mapping[str, Pair]], head: int) -> None:
        """`pairs` by adapter digest, LoRA's by module; `head` numbers of the output head."""
        self._model, self._head, self._pairs = model, head, pairs
        self._asked: Callable[[Sequence[Row]], Output] = model.hidden
        layers = model.decoder.layers
        inner = [sum(one.weight.numel() for one in (own.out, own.gate_up, own.down)) for own in layers]
        self._every = sum(own.qkv.weight.numel() for own in layers) + sum(inner[:-1])
        self._read_only = inner[-1]
        """Numbers of the base that every token meets, and those that only what is read meets."""
        self.needed = Needed()
        setattr(model, "hidden", self._hidden)  # noqa: B010

    def taken(self) -> Needed:
        """What was counted since the last call."""
        found, self.needed = self.needed, Needed()
        return found

    def _hidden(self, rows: Sequence[Row]) -> Output:
        self.needed = sum((self._of(row) for row in rows), self.needed)
        return self._asked(rows)

    def _of(self, row: Row) -> Needed:
        decoder = self._model.decoder
        before = sum(int(part.shape[1]) for part in row.prefix[:1])
        end = before + len(row.suffix)
        seen = [*range(before + row.known + 1, end + 1), *(end + depth for depth in row.trie.depths)]
        tokens, reads, last = len(seen), len(row.reads), len(decoder.layers) - 1
        read_seen = sum(end + (row.trie.depths[node - 1] if node else 0) for node in row.reads)
        base = 2 * (tokens * self._every + reads * self._read_only)
        attention = 4 * decoder.heads * decoder.head_dim * (last * sum(seen) + read_seen)
        return Needed(tokens, base, attention + 2 * self._head + self._lora(row, tokens, reads, last))

    def _lora(self, row: Row, tokens: int, reads: int, last: int) -> int:
        """LoRA's products; none where it is merged into the weights."""
        if row.weights.deltas is None:
            return 0
        flops = 0
        for name, pair in self._pairs[row.weights.digest].items():
            every = f".layers.{last}." not in name or name.endswith(("q_proj", "k_proj", "v_proj"))
            flops += 2 * (tokens if every else reads) * (pair.a.numel() + pair.b.numel())
        return flops


def pairs_of(adapters: Sequence[Any]) -> dict[str, Mapping[str, Pair]]:
    """Of LoRA adapters by digest."""
    return {adapter.digest: adapter.payload.pairs for adapter in adapters}
