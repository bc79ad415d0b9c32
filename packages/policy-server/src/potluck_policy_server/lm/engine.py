"""The two ways to get hidden states out of a causal language model.

`PackedEngine` runs our packed forward; `peft_engine.PeftEngine` runs transformers and PEFT as they are, for every other
architecture. Both answer jobs in any order and any mix of adapters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from potluck.decoder.trie import Trie
from potluck.decoder.weights import FROZEN, Weights, attach
from potluck_policy_server.backbones.base import Adapter
from potluck_policy_server.lm import proof
from potluck_policy_server.lm.caches import Beginnings, Prefix, PrefixCache
from potluck_policy_server.lm.packed import Output, PackedDecoder, Row, Trunk

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


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the packed engine uses memory."""

    prefix_bytes: int = 256 << 20
    reuse_bytes: int = 0
    """Memory for the keys and values of states that were read already; 0 = compute every state whole."""
    merge: bool = False
    alone: bool = False
    """Each decision in a pass of its own."""


class PackedEngine:
    """The packed forward with its caches and attached adapters."""

    def __init__(self, model: PackedDecoder, options: EngineOptions) -> None:
        self.model = model
        self._options = options
        self._weights: dict[str, Weights] = {}
        self.prefixes = PrefixCache(options.prefix_bytes)
        layers = len(model.decoder.layers)
        self.beginnings = Beginnings(options.reuse_bytes, layers, model.width, model.dtype, model.device)

    def ready(self, adapter: Adapter | None) -> None:
        if adapter is not None and adapter.digest not in self._weights:
            with torch.inference_mode():
                self._attached(adapter)

    @torch.inference_mode()
    def hidden(self, jobs: Sequence[Job]) -> list[Hidden]:
        order = sorted(range(len(jobs)), key=lambda i: (_digest(jobs[i]), jobs[i].prefix, len(jobs[i].suffix)))
        results: list[Hidden | None] = [None] * len(jobs)
        for chunk in _chunks(order, jobs, 1 if self._options.alone else CHUNK_TOKENS):
            rows = [self._row(jobs[i]) for i in chunk]
            output = self.model.hidden(rows)
            self._keep([jobs[i] for i in chunk], rows, output)
            states = torch.split(output.states, [len(row.reads) for row in rows])
            for i, state, served in zip(chunk, states, output.served, strict=True):
                results[i] = Hidden(state, served)
        return [result for result in results if result is not None]

    def forget(self, digest: str) -> None:
        self._weights.pop(digest, None)
        self.prefixes.forget(digest)
        self.beginnings.forget(digest)

    def _row(self, job: Job) -> Row:
        weights = self._attached(job.adapter)
        begin: Tensor | None = None
        prefix = self._prefix(job, weights)
        if self._options.reuse_bytes:
            found = self.beginnings.find(weights.digest, job.prefix, job.suffix)
            if found is not None:
                known = len(found.ids) - len(job.prefix)
                proof.check_prefix(found.digest, found.ids, weights.digest, job.prefix + job.suffix[:known])
                begin = found.kv
        return Row(weights, prefix, job.suffix, job.trie, job.reads, begin)

    def _prefix(self, job: Job, weights: Weights) -> tuple[Tensor, ...]:
        """Keys and values of the rules; those of the trunk are shared by all adapters that begin above it."""
        trunk: Prefix | None = None
        ids = job.prefix
        if 0 < weights.lowest < len(self.model.decoder.layers):
            layers = weights.lowest
            trunk = self.prefixes.get("", ("trunk", layers, ids), lambda: self._trunk(ids, layers))
            proof.check_prefix(trunk.digest, trunk.ids, "", ids)
        own = self.prefixes.get(
            _digest(job), ids, lambda: Prefix(self._above(ids, weights, trunk), weights.digest, ids)
        )
        proof.check_prefix(own.digest, own.ids, weights.digest, ids)
        return (own.kv,) if trunk is None else (trunk.kv, own.kv)

    def _trunk(self, ids: tuple[int, ...], layers: int) -> Prefix:
        kv, states = self.model.trunk(ids, layers)
        return Prefix(kv, "", ids, states)

    def _above(self, ids: tuple[int, ...], weights: Weights, trunk: Prefix | None) -> Tensor:
        if trunk is None or trunk.states is None:
            return self.model.prefix(ids, weights)
        return self.model.prefix(ids, weights, Trunk(trunk.kv, trunk.states))

    def _keep(self, jobs: Sequence[Job], rows: Sequence[Row], output: Output) -> None:
        if not self._options.reuse_bytes:
            return
        for index, (job, row, served) in enumerate(zip(jobs, rows, output.served, strict=True)):
            first, end = len(job.prefix), len(job.prefix) + len(job.suffix)
            if served == row.weights.digest:
                self.beginnings.keep(served, job.prefix, job.suffix, output.kv[:, index, first:end])

    def _attached(self, adapter: Adapter | None) -> Weights:
        if adapter is None:
            return FROZEN
        found = self._weights.get(adapter.digest)
        if found is None:
            found = attach(self.model.decoder, adapter.digest, adapter.payload.pairs, self._options.merge)
            proof.check_attached(self.model.decoder, adapter.payload, found)
            self._weights[adapter.digest] = found
        return found


def _digest(job: Job) -> str:
    return job.adapter.digest if job.adapter else ""


def _chunks(order: Sequence[int], jobs: Sequence[Job], most: int) -> list[list[int]]:
    """Neighbours of similar length, so that little is padded inside attention."""
    chunks: list[list[int]] = []
    tokens = most + 1
    for i in order:
        size = len(jobs[i].suffix) + len(jobs[i].trie.tokens)
        if tokens + size > most:
            chunks.append([])
            tokens = 0
        chunks[-1].append(i)
        tokens += size
    return chunks
