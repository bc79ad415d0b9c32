"""Decisions as one padded batch: prompts, extra trie tokens, and where to read which label's probability.

Rows are right-padded: what follows a row's last token cannot be seen by it. Rows with extra tokens need a mask, since
a node sees the prompt and its ancestors but not its siblings; without any the plain causal mask is enough.

Axes: N decisions, L tokens after the prefix, M menu places, R branches of all rows, U distinct label tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from potluck_trainer.learners import trie
from potluck_trainer.learners.base import Sample


@dataclass(frozen=True, slots=True)
class Packed:
    """One microbatch; all its decisions share the prefix."""

    prefix: torch.Tensor
    ids_NL: torch.Tensor
    positions_NL: torch.Tensor
    visible_NLL: torch.Tensor | None
    """Which of the row's own tokens each token sees; None = the plain causal mask."""
    row_T: torch.Tensor
    """Where the tokens that are no padding lie, row after row."""
    column_T: torch.Tensor
    branch_row_R: torch.Tensor
    branch_column_R: torch.Tensor
    tokens_U: torch.Tensor
    child_RU: torch.Tensor
    """Whether token u is a child at branch r."""
    step_label: torch.Tensor
    """Flat n·M + m of each (branch, token) step of a label."""
    step_branch: torch.Tensor
    step_token: torch.Tensor
    offered_NM: torch.Tensor


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
        own = len(samples[n].suffix) + len(trie.build(samples[n].labels).tokens)
        if not batches or len(batches[-1]) == size or (tokens and held + own > tokens):
            batches.append([])
            held = 0
        batches[-1].append(n)
        held += own
    return batches


def pack(samples: Sequence[Sample]) -> Packed:
    tries = [trie.build(sample.labels) for sample in samples]
    lengths = [len(sample.suffix) + len(tree.tokens) for sample, tree in zip(samples, tries, strict=True)]
    count, width, menu = len(samples), max(lengths), max(sample.size for sample in samples)
    prefix_length = len(samples[0].prefix)
    ids = torch.zeros(count, width, dtype=torch.long)
    positions = torch.arange(prefix_length, prefix_length + width).repeat(count, 1)
    tokens = sorted({token for tree in tries for kids in tree.children for token in kids})
    token_place = {token: place for place, token in enumerate(tokens)}
    rows: list[int] = []
    columns: list[int] = []
    child_at: list[tuple[int, int]] = []
    steps: list[tuple[int, int, int]] = []
    for n, (sample, tree) in enumerate(zip(samples, tries, strict=True)):
        root = len(sample.suffix) - 1
        ids[n, : root + 1] = torch.tensor(sample.suffix)
        if tree.tokens:
            ids[n, root + 1 : lengths[n]] = torch.tensor(tree.tokens)
            positions[n, root + 1 : lengths[n]] = prefix_length + root + torch.tensor(tree.depths)
        first = len(rows)
        for node, kids in zip(tree.branch_nodes, tree.children, strict=True):
            child_at += [(len(rows), token_place[token]) for token in kids]
            rows.append(n)
            columns.append(root + node)
        for m, path in enumerate(tree.steps):
            steps += [(n * menu + m, first + branch, token_place[token]) for branch, token in path]
    child = torch.zeros(len(rows), max(len(tokens), 1), dtype=torch.bool)
    if child_at:
        child[tuple(torch.tensor(child_at).T)] = True
    step = torch.tensor(steps, dtype=torch.long).reshape(-1, 3).T
    sizes = torch.tensor([sample.size for sample in samples])
    return Packed(
        prefix=torch.tensor([samples[0].prefix], dtype=torch.long),
        ids_NL=ids,
        positions_NL=positions,
        visible_NLL=_visible(samples, tries, width) if any(tree.tokens for tree in tries) else None,
        row_T=torch.repeat_interleave(torch.tensor(lengths)),
        column_T=torch.cat([torch.arange(length) for length in lengths]),
        branch_row_R=torch.tensor(rows, dtype=torch.long),
        branch_column_R=torch.tensor(columns, dtype=torch.long),
        tokens_U=torch.tensor(tokens, dtype=torch.long),
        child_RU=child,
        step_label=step[0],
        step_branch=step[1],
        step_token=step[2],
        offered_NM=torch.arange(menu)[None, :] < sizes[:, None],
    )


def _visible(samples: Sequence[Sample], tries: Sequence[trie.Trie], width: int) -> torch.Tensor:
    visible = torch.tril(torch.ones(width, width, dtype=torch.bool)).repeat(len(samples), 1, 1)
    for n, (sample, tree) in enumerate(zip(samples, tries, strict=True)):
        root = len(sample.suffix) - 1
        for extra, parent in enumerate(tree.parents):
            row = root + 1 + extra
            visible[n, row] = visible[n, root + parent]
            visible[n, row, row] = True
    return visible
