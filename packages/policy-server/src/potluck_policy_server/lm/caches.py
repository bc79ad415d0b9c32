"""Keys and values that were computed before: rules by adapter, and the beginnings of states.

Everything is named by content: the digest of the weights and the token ids. An entry says what it was computed from,
and the engine checks that before it uses one (proof.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from potluck.decoder import trie


@dataclass(slots=True)
class CacheStats:
    """What a cache did."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    reused: int = 0
    """Tokens that were not computed again."""


class Prefix(NamedTuple):
    """Keys and values of a prefix, and what they were computed from."""

    kv: Tensor
    digest: str
    ids: tuple[int, ...]
    states: Tensor | None = None
    """Hidden states above the trunk, where this is one."""


class PrefixCache:
    """Prefixes by (adapter digest, prefix ids): content names both, so an entry is never stale. Oldest use goes first
    when the budget is full."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: OrderedDict[tuple[str, Hashable], Prefix] = OrderedDict()
        self.size = 0
        self.stats = CacheStats()

    def get(self, digest: str, ids: Hashable, compute: Callable[[], Prefix]) -> Prefix:
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


@dataclass(slots=True, eq=False)
class _Node:
    """Tokens of a remembered text up to where another one parts from it."""

    ids: tuple[int, ...] = ()
    slots: list[int] = field(default_factory=list)
    seen: int = 1
    children: dict[int, _Node] = field(default_factory=dict)
    """By first token."""

    def part(self, size: int) -> None:
        """Cuts it behind so many tokens; the rest becomes its child."""
        rest = _Node(self.ids[size:], self.slots[size:], self.seen, self.children)
        self.ids, self.slots, self.children = self.ids[:size], self.slots[:size], {rest.ids[0]: rest}


class _Tree(NamedTuple):
    """Remembered texts after one prefix under one adapter."""

    digest: str
    ids: tuple[int, ...]
    root: _Node


class Beginning(NamedTuple):
    """Keys and values of a text's first tokens, and what they were computed from."""

    kv: Tensor
    digest: str
    ids: tuple[int, ...]


class Beginnings:
    """A tree of token ids per (adapter, prefix); each token's keys and values lie in a common pool.

    When the pool is full, texts' tails that only one decision has met go; if that frees less than half, or less than is
    wanted, the trees that were used longest ago go whole.
    """

    def __init__(self, budget: int, layers: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self._slots = budget // (layers * width * dtype.itemsize)
        self._shape, self._dtype, self._device = (layers, self._slots, width), dtype, device
        self._pool: Tensor | None = None
        self._free: list[int] = list(range(self._slots))
        self._trees: OrderedDict[tuple[str, tuple[int, ...]], _Tree] = OrderedDict()
        self.stats = CacheStats()

    def find(self, digest: str, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> Beginning | None:
        """The longest remembered beginning of the suffix that leaves at least one token to compute."""
        tree = self._trees.get((digest, prefix))
        path = [] if tree is None else _walk(tree.root, suffix[:-1])
        if tree is None or not path or self._pool is None:
            self.stats.misses += 1
            return None
        slots = [slot for node, size in path for slot in node.slots[:size]]
        self.stats.hits += 1
        self.stats.reused += len(slots)
        ids = tree.ids + tuple(token for node, size in path for token in node.ids[:size])
        return Beginning(self._pool.index_select(1, self._index(slots)), tree.digest, ids)

    def keep(self, digest: str, prefix: tuple[int, ...], suffix: tuple[int, ...], kv: Tensor) -> None:
        """Remembers a suffix by its keys and values [layers, tokens, width]."""
        if len(suffix) > self._slots:
            return
        if len(self._free) < len(suffix):
            self._make_room(len(suffix))
        if self._pool is None:
            self._pool = torch.empty(self._shape, dtype=self._dtype, device=self._device)
        key = (digest, prefix)
        tree = self._trees.setdefault(key, _Tree(digest, prefix, _Node()))
        self._trees.move_to_end(key)
        node, known = tree.root, 0
        for node, size in _walk(tree.root, suffix):
            if size < len(node.ids):
                node.part(size)
            node.seen += 1
            known += size
        if fresh := len(suffix) - known:
            slots = self._free[-fresh:]
            del self._free[-fresh:]
            node.children[suffix[known]] = _Node(suffix[known:], slots)
            self._pool.index_copy_(1, self._index(slots), kv[:, known:])

    def forget(self, digest: str) -> None:
        """Drops an adapter's texts."""
        for key in [key for key in self._trees if key[0] == digest]:
            self._drop(self._trees.pop(key).root)

    def _make_room(self, wanted: int) -> None:
        for tree in self._trees.values():
            self._prune(tree.root)
        while self._trees and len(self._free) < max(self._slots // 2, wanted):
            self._drop(self._trees.popitem(last=False)[1].root)
        self.stats.evictions += 1

    def _prune(self, root: _Node) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            for token, child in list(node.children.items()):
                if child.seen < 2:
                    del node.children[token]
                    self._drop(child)
                    self._free += child.slots
                else:
                    child.seen = 1
                    stack.append(child)

    def _drop(self, node: _Node) -> None:
        """Frees what hangs below a node."""
        stack = list(node.children.values())
        while stack:
            one = stack.pop()
            self._free += one.slots
            stack.extend(one.children.values())

    def _index(self, slots: list[int]) -> Tensor:
        return torch.tensor(slots, device=self._device)


def _walk(root: _Node, ids: tuple[int, ...]) -> list[tuple[_Node, int]]:
    """The nodes on the way of ids, as far as it is known, and how many of each node's tokens are on it."""
    path: list[tuple[_Node, int]] = []
    node, at = root, 0
    while at < len(ids) and (following := node.children.get(ids[at])) is not None:
        size = trie.shared(following.ids, ids[at : at + len(following.ids)])
        path.append((following, size))
        node, at = following, at + size
        if size < len(following.ids):
            break
    return path


def _bytes(value: Prefix) -> int:
    size = value.kv.numel() * value.kv.element_size()
    return size if value.states is None else size + value.states.numel() * value.states.element_size()
