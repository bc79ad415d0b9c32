"""Decisions as one padded batch for transformers: prompts, extra trie tokens, and where to read.

Rows are right-padded: what follows a row's last token cannot be seen by it. Rows with extra tokens need a mask, since
a node sees the prompt and its ancestors but not its siblings; without any the plain causal mask is enough.

Axes: N decisions, L tokens after the prefix, R reads (branching nodes) of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from potluck.decoder.trie import Trie
from potluck_trainer.learners import policies
from potluck_trainer.learners.base import Sample


@dataclass(frozen=True, slots=True)
class Packed:
    """One microbatch; all its decisions share the prefix."""

    prefix: torch.Tensor
    ids_NL: torch.Tensor
    positions_NL: torch.Tensor
    visible_NLL: torch.Tensor | None
    """Which of the row's own tokens each token sees; None = the plain causal mask."""
    read_row_R: torch.Tensor
    read_column_R: torch.Tensor


def microbatches(samples: Sequence[Sample], order: Sequence[int], size: int, tokens: int = 0) -> list[list[int]]:
    """Splits by prefix, then by length, so that little is padding; the order within is that of the lengths. None has
    more than `size` decisions, nor (0 = no bound) more than so many tokens, unless a single decision has."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for n in order:
        groups.setdefault(samples[n].prefix, []).append(n)
    batches: list[list[int]] = []
    for prefix in sorted(groups):
        members = sorted(groups[prefix], key=lambda n: (len(samples[n].suffix), n))
        batches += _cut(samples, members, size, tokens)
    return batches


def _cut(samples: Sequence[Sample], members: Sequence[int], size: int, tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    held = 0
    for n in members:
        own = len(samples[n].suffix) + len(policies.trie_of(samples[n].labels).tokens)
        if not batches or len(batches[-1]) == size or (tokens and held + own > tokens):
            batches.append([])
            held = 0
        batches[-1].append(n)
        held += own
    return batches


def pack(samples: Sequence[Sample]) -> Packed:
    """Decisions behind one prefix."""
    tries = tuple(policies.trie_of(sample.labels) for sample in samples)
    lengths = [len(sample.suffix) + len(tree.tokens) for sample, tree in zip(samples, tries, strict=True)]
    count, width = len(samples), max(lengths)
    prefix_length = len(samples[0].prefix)
    ids = torch.zeros(count, width, dtype=torch.long)
    positions = torch.arange(prefix_length, prefix_length + width).repeat(count, 1)
    reads: list[tuple[int, int]] = []
    for n, (sample, tree) in enumerate(zip(samples, tries, strict=True)):
        root = len(sample.suffix) - 1
        ids[n, : root + 1] = torch.tensor(sample.suffix)
        if tree.tokens:
            ids[n, root + 1 : lengths[n]] = torch.tensor(tree.tokens)
            positions[n, root + 1 : lengths[n]] = prefix_length + root + torch.tensor(tree.depths)
        reads += [(n, root + node) for node in policies.nodes(tree)]
    at = torch.tensor(reads, dtype=torch.long).reshape(-1, 2).T
    return Packed(
        prefix=torch.tensor([samples[0].prefix], dtype=torch.long),
        ids_NL=ids,
        positions_NL=positions,
        visible_NLL=_visible(samples, tries, width) if any(tree.tokens for tree in tries) else None,
        read_row_R=at[0],
        read_column_R=at[1],
    )


def _visible(samples: Sequence[Sample], tries: Sequence[Trie], width: int) -> torch.Tensor:
    visible = torch.tril(torch.ones(width, width, dtype=torch.bool)).repeat(len(samples), 1, 1)
    for n, (sample, tree) in enumerate(zip(samples, tries, strict=True)):
        root = len(sample.suffix) - 1
        for extra, parent in enumerate(tree.parents):
            row = root + 1 + extra
            visible[n, row] = visible[n, root + parent]
            visible[n, row, row] = True
    return visible
