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
from potluck_policy_server.lm import proof
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


class Hidden(NamedTuple):
    """A job's outcome."""

    states: Tensor
    """Final hidden states [reads, width]."""
    adapter_digest: str
    """Whose weights computed them, as the engine found them at work."""


class Engine(Protocol):
    """Runs jobs."""

    def ready(self, adapter: Adapter | None) -> None:
        """Puts an adapter's weights in place and proves that they act as uploaded; raises WrongWeights."""
        ...

    def hidden(self, jobs: Sequence[Job]) -> list[Hidden]:
        """The outcomes, in order."""
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


class Prefix(NamedTuple):
    """Keys and values of a prefix, and what they were computed from."""

    kv: Tensor
    digest: str
    ids: tuple[int, ...]


class PrefixCache:
    """Prefixes by (adapter digest, prefix ids): content names both, so an entry is never stale. Oldest use goes first
    when the budget is full."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: OrderedDict[tuple[str, tuple[int, ...]], Prefix] = OrderedDict()
        self.size = 0
        self.stats = CacheStats()

    def get(self, digest: str, ids: tuple[int, ...], compute: Callable[[], Prefix]) -> Prefix:
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
    def ready(self, adapter: Adapter | None) -> None:
        self._attached(adapter)

    @torch.inference_mode()
    def hidden(self, jobs: Sequence[Job]) -> list[Hidden]:
        order = sorted(range(len(jobs)), key=lambda i: (_digest(jobs[i]), jobs[i].prefix, len(jobs[i].suffix)))
        results: list[Hidden | None] = [None] * len(jobs)
        for chunk in _chunks(order, jobs):
            rows = [self._row(jobs[i]) for i in chunk]
            output = self._model.hidden(rows)
            states = torch.split(output.states, [len(row.reads) for row in rows])
            for i, state, served in zip(chunk, states, output.served, strict=True):
                results[i] = Hidden(state, served)
        return [result for result in results if result is not None]

    def forget(self, digest: str) -> None:
        self._weights.pop(digest, None)
        self.prefixes.forget(digest)

    def _row(self, job: Job) -> Row:
        weights = self._attached(job.adapter)
        ids = job.prefix
        prefix = self.prefixes.get(
            _digest(job), ids, lambda: Prefix(self._model.prefix(ids, weights), weights.digest, ids)
        )
        proof.check_prefix(prefix.digest, prefix.ids, weights.digest, ids)
        return Row(weights, prefix.kv, job.suffix, job.trie, job.reads)

    def _attached(self, adapter: Adapter | None) -> Weights:
        if adapter is None:
            return FROZEN
        found = self._weights.get(adapter.digest)
        if found is None:
            found = attach(self._model.decoder, adapter.digest, adapter.payload, self._merge)
            proof.check_attached(self._model.decoder, adapter.payload, found)
            self._weights[adapter.digest] = found
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


def _bytes(value: Prefix) -> int:
    return value.kv.numel() * value.kv.element_size()
