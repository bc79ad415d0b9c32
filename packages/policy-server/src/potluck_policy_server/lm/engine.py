"""The two ways to get hidden states out of a causal language model.

`PackedEngine` runs our packed forward; `peft_engine.PeftEngine` runs transformers and PEFT as they are, for every other
architecture. Both answer jobs in any order and any mix of adapters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from potluck_policy_server.backbones.base import Adapter
from potluck_policy_server.lm.packed import PackedDecoder, Row
from potluck_policy_server.lm.trie import Trie
from potluck_policy_server.lm.weights import FROZEN, Weights, attach

# A chunk's activations should stay in the core's second-level cache; more rows gain nothing on a CPU.
CHUNK_TOKENS = 1024


class Job(NamedTuple):
    """A decision as token ids."""

    adapter: Adapter | None
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    trie: Trie

    @property
    def reads(self) -> tuple[int, ...]:
        """The root, then every other branching node."""
        return (0, *(branch.node for branch in self.trie.branches if branch.node))


class Engine(Protocol):
    """Runs jobs."""

    def hidden(self, jobs: Sequence[Job]) -> list[Tensor]:
        """Final hidden states [reads, width] of each job."""
        ...

    def forget(self, digest: str) -> None:
        """Drops what is cached for an adapter."""
        ...


@dataclass(slots=True)
class CacheStats:
    """What the prefix cache did."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


class PrefixCache:
    """Keys and values by (adapter digest, prefix ids): content names both, so an entry is never stale. Oldest use goes
    first when the budget is full."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: OrderedDict[tuple[str, tuple[int, ...]], Tensor] = OrderedDict()
        self.size = 0
        self.stats = CacheStats()

    def get(self, digest: str, ids: tuple[int, ...], compute: Callable[[], Tensor]) -> Tensor:
        """The entry, computed if it is not there."""
        key = (digest, ids)
        if (found := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
            self.stats.hits += 1
            return found
        self.stats.misses += 1
        value = compute()
        self._entries[key] = value
        self.size += _bytes(value)
        while self.size > self._budget and len(self._entries) > 1:
            _, dropped = self._entries.popitem(last=False)
            self.size -= _bytes(dropped)
            self.stats.evictions += 1
        return value

    def forget(self, digest: str) -> None:
        """Drops an adapter's entries."""
        for key in [key for key in self._entries if key[0] == digest]:
            self.size -= _bytes(self._entries.pop(key))


class PackedEngine:
    """The packed forward with its prefix cache and attached adapters."""

    def __init__(self, model: PackedDecoder, prefix_bytes: int, merge: bool) -> None:
        self._model = model
        self._merge = merge
        self._weights: dict[str, Weights] = {}
        self.prefixes = PrefixCache(prefix_bytes)

    @torch.inference_mode()
    def hidden(self, jobs: Sequence[Job]) -> list[Tensor]:
        order = sorted(range(len(jobs)), key=lambda i: (_digest(jobs[i]), jobs[i].prefix, len(jobs[i].suffix)))
        results: list[Tensor | None] = [None] * len(jobs)
        for chunk in _chunks(order, jobs):
            rows = [self._row(jobs[i]) for i in chunk]
            states = torch.split(self._model.hidden(rows), [len(row.reads) for row in rows])
            for i, state in zip(chunk, states, strict=True):
                results[i] = state
        return [state for state in results if state is not None]

    def forget(self, digest: str) -> None:
        self._weights.pop(digest, None)
        self.prefixes.forget(digest)

    def _row(self, job: Job) -> Row:
        weights = self._attached(job.adapter)
        ids = job.prefix
        kv = self.prefixes.get(_digest(job), ids, lambda: self._model.prefix(ids, weights))
        return Row(weights, kv, job.suffix, job.trie, job.reads)

    def _attached(self, adapter: Adapter | None) -> Weights:
        if adapter is None:
            return FROZEN
        found = self._weights.get(adapter.digest)
        if found is None:
            found = self._weights[adapter.digest] = attach(self._model.decoder, adapter.payload, self._merge)
        return found


def _digest(job: Job) -> str:
    return job.adapter.digest if job.adapter else ""


def _chunks(order: Sequence[int], jobs: Sequence[Job]) -> list[list[int]]:
    """Neighbours of similar length, so that little is padded inside attention."""
    chunks: list[list[int]] = []
    tokens = CHUNK_TOKENS + 1
    for i in order:
        size = len(jobs[i].suffix) + len(jobs[i].trie.tokens)
        if tokens + size > CHUNK_TOKENS:
            chunks.append([])
            tokens = 0
        chunks[-1].append(i)
        tokens += size
    return chunks


def _bytes(value: Tensor) -> int:
    return value.numel() * value.element_size()
