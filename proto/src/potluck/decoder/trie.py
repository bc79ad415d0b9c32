"""The exact policy over labels of one or more tokens.

The offered labels' token paths form a trie. At every branching node the model's next-token distribution is restricted
to that node's children and divided by the temperature, as constrained sampling token by token would do:

    P(label) = product over the branching nodes on its path of softmax(logits[children] / T)[child]

One forward serves all: the suffix ends at the root, and every other internal node that branches (or lies above one
that does) is one more token that sees the prompt and its own ancestors. A label that is the start of another one must
be ended by a terminator first, so leaves never lie inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node where the labels part."""

    node: int
    """0 is the root (the prompt's last token), k > 0 the extra token k - 1."""
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trie:
    """Labels' paths as extra tokens and branches."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    """Node above each extra token, in the numbering of Branch.node."""
    depths: tuple[int, ...]
    branches: tuple[Branch, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]
    """For each label the (branch, child) pairs on its path."""
    first_tokens: tuple[int, ...]
    """The distinct first tokens of the labels."""


NO_LABELS = Trie((), (), (), (), (), ())


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    if one == other:
        return len(one)
    unequal = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unequal, min(len(one), len(other)))


def starts(paths: Sequence[Path]) -> set[Path]:
    """Those of distinct paths that are the start of another: in order, such a path stands right before one."""
    return {a for a, b in itertools.pairwise(sorted(paths)) if a == b[: len(a)]}


@lru_cache(maxsize=4096)
def build(paths: tuple[Path, ...]) -> Trie:
    """The trie of distinct paths, none of which is the start of another. Raises ValueError otherwise."""
    if len(set(paths)) < len(paths) or starts(paths):
        raise ValueError("a label's token path is the start of another's")
    children: dict[Path, list[int]] = {}
    for path in paths:
        for depth, token in enumerate(path):
            known = children.setdefault(path[:depth], [])
            if token not in known:
                known.append(token)
    branching = [stem for stem, tokens in children.items() if len(tokens) > 1]
    needed = {stem[:depth] for stem in branching for depth in range(len(stem) + 1)} | {()}
    order = sorted(needed, key=lambda stem: (len(stem), stem))
    number = {stem: index for index, stem in enumerate(order)}
    branches = tuple(Branch(number[stem], tuple(children[stem])) for stem in sorted(branching, key=number.__getitem__))
    index = {stem: place for place, stem in enumerate(sorted(branching, key=number.__getitem__))}
    steps = tuple(
        tuple(
            (index[path[:depth]], children[path[:depth]].index(token))
            for depth, token in enumerate(path)
            if path[:depth] in index
        )
        for path in paths
    )
    extra = order[1:]
    return Trie(
        tokens=tuple(stem[-1] for stem in extra),
        parents=tuple(number[stem[:-1]] for stem in extra),
        depths=tuple(len(stem) for stem in extra),
        branches=branches,
        steps=steps,
        first_tokens=tuple(children.get((), ())),
    )


def label_logprobs(trie: Trie, logits: Sequence[Floats], temperature: float) -> Floats:
    """Log-probabilities of the labels, given each branch's logits over its children."""
    return along(trie, branch_logprobs(logits, temperature))


def branch_logprobs(logits: Sequence[Floats], temperature: float) -> list[Floats]:
    """Of each branch the log-probabilities of its children, given their logits."""
    return [log_softmax(np.asarray(row, np.float64) / temperature) for row in logits]


def along(trie: Trie, logs: Sequence[Floats]) -> Floats:
    """Log-probabilities of the labels, given those of each branch's children."""
    values = [row.tolist() for row in logs]
    return np.array([sum([values[branch][child] for branch, child in steps]) for steps in trie.steps], np.float64)


def log_softmax(x: Floats) -> Floats:
    """Stable log-softmax of a row."""
    shifted = x - x.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()), np.float64)
