"""The exact policy over labels of one or more tokens, as the policy server defines it.

The labels' token paths form a trie. At every branching node the next-token distribution is restricted to the node's
children and divided by the temperature; a label's probability is the product along its path. The prompt's last token
is the root; every other node that branches, or lies above one that does, is one more token after the prompt that sees
the prompt and its own ancestors. Where all labels are single tokens there is only the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from potluck_trainer.errors import BackboneError

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trie:
    """Nodes are numbered from 0 (the root); node n > 0 is extra token n − 1."""

    tokens: Path
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    branch_nodes: tuple[int, ...]
    children: tuple[Path, ...]
    """Of each branch."""
    steps: tuple[tuple[tuple[int, int], ...], ...]
    """For each label the (branch, child token) pairs on its path."""


@lru_cache(maxsize=65536)
def build(paths: tuple[Path, ...]) -> Trie:
    """The trie of distinct paths, none of which is the start of another."""
    children: dict[Path, dict[int, None]] = {}
    for path in paths:
        for depth, token in enumerate(path):
            children.setdefault(path[:depth], {})[token] = None
    if len(set(paths)) != len(paths) or any(path in children for path in paths):
        raise BackboneError("two labels share their tokens, or one is the start of another; use the letters scheme")
    branching = [stem for stem, tokens in children.items() if len(tokens) > 1]
    needed = {stem[:depth] for stem in branching for depth in range(len(stem) + 1)} | {()}
    order = sorted(needed, key=lambda stem: (len(stem), stem))
    number = {stem: place for place, stem in enumerate(order)}
    branching.sort(key=number.__getitem__)
    branch_of = {stem: place for place, stem in enumerate(branching)}
    return Trie(
        tokens=tuple(stem[-1] for stem in order[1:]),
        parents=tuple(number[stem[:-1]] for stem in order[1:]),
        depths=tuple(len(stem) for stem in order[1:]),
        branch_nodes=tuple(number[stem] for stem in branching),
        children=tuple(tuple(children[stem]) for stem in branching),
        steps=tuple(
            tuple((branch_of[path[:depth]], token) for depth, token in enumerate(path) if path[:depth] in branch_of)
            for path in paths
        ),
    )
