"""Attention over packed rows: decisions see their own keys only, at places that depend on nothing else.

A decision's keys lie in the order of positions: rules, beginning of the state, new tokens, extra tokens of labels. Only
the padding behind them depends on the batch. Two ways to compute:

exact   products over at most KEYS_AT_ONCE keys, summed in order. Keys behind a decision's own add an exact zero, so
        its bits do not depend on how far the batch is padded. (A longer product is cut by BLAS where its length says.)
fast    torch's scaled_dot_product_attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

Index = NDArray[np.int64]

KEYS_AT_ONCE = 64
_FEW_SLOTS = 256
"""Up to this many, places of a single decision are remembered."""
_SLOTS_AT_ONCE = 4
"""Queries per decision are padded to a multiple: BLAS rounds fewer rows in another order (see matrix.py)."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of grouped-query attention."""

    queries: int
    kv: int
    dim: int

    @property
    def repeat(self) -> int:
        """Query heads per key head."""
        return self.queries // self.kv


@dataclass(frozen=True, slots=True)
class View:
    """How packed queries become a padded grid [decision, key head, slot, repeat] and come back."""

    there: Tensor
    """For each place of the grid its row in [packed row, query head]."""
    back: Tensor
    """The inverse, for the places that are not padding."""
    mask: Tensor
    """[decisions, slots, keys]: 0 where a key is seen, -inf elsewhere."""


def padded_keys(longest: int, exact: bool) -> int:
    """Key slots of a batch."""
    return -(-longest // KEYS_AT_ONCE) * KEYS_AT_ONCE if exact else longest


def padded_slots(longest: int) -> int:
    """Query slots of a batch."""
    return max(-(-longest // _SLOTS_AT_ONCE) * _SLOTS_AT_ONCE, _SLOTS_AT_ONCE)


def view(counts: Index, mask: NDArray[np.float32], heads: Heads, device: torch.device) -> View:
    """The view of packed queries, `counts` for each decision, under a mask [decisions, slots, keys]."""
    slots = mask.shape[1]
    if len(counts) == 1 and slots <= _FEW_SLOTS:
        there, back = _places_of_one(int(counts[0]), slots, heads, device)
    else:
        there, back = _places(counts, slots, heads, device)
    return View(there, back, torch.from_numpy(mask).to(device))


def _places(counts: Index, slots: int, heads: Heads, device: torch.device) -> tuple[Tensor, Tensor]:
    """`there` and `back` of a view."""
    starts = np.cumsum(counts) - counts
    token = np.minimum(np.arange(slots)[None], np.maximum(counts[:, None] - 1, 0)) + starts[:, None]
    token = np.minimum(token, max(int(counts.sum()) - 1, 0))
    kv, repeat = np.arange(heads.kv)[:, None, None], np.arange(heads.repeat)
    there = token[:, None, :, None] * heads.queries + kv * heads.repeat + repeat
    owner = np.repeat(np.arange(len(counts)), counts)
    slot = np.arange(int(counts.sum())) - starts[owner]
    row = (owner[:, None] * heads.kv + np.arange(heads.kv)) * slots + slot[:, None]
    back = row[:, :, None] * heads.repeat + repeat
    return _moved(there, device), _moved(back, device)


@lru_cache(maxsize=256)
def _places_of_one(count: int, slots: int, heads: Heads, device: torch.device) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False):
        return _places(np.array([count]), slots, heads, device)


def _moved(index: Index, device: torch.device) -> Tensor:
    return torch.from_numpy(index.reshape(-1)).to(device)


def attend(q: Tensor, kv: Tensor, view: View, heads: Heads, exact: bool) -> Tensor:
    """Packed queries [rows, query heads * dim] over kv [decisions, keys, 2, key heads, dim] -> like q."""
    decisions, slots, keys = view.mask.shape
    wide = torch.float32 if q.device.type == "cpu" else q.dtype
    grid = q.reshape(-1, heads.dim).index_select(0, view.there).to(wide)
    k, v = (kv[:, :, half].transpose(1, 2).to(wide) for half in (0, 1))
    if exact:
        grid = grid.mul_(heads.dim**-0.5).view(decisions * heads.kv, slots * heads.repeat, heads.dim)
        mixed = _exact(grid, k.reshape(-1, keys, heads.dim), v.reshape(-1, keys, heads.dim), view.mask.to(wide), heads)
    else:
        grid = grid.view(decisions, heads.kv, slots * heads.repeat, heads.dim)
        seen = view.mask.to(wide)[:, None].repeat_interleave(heads.repeat, 2)
        mixed = functional.scaled_dot_product_attention(grid, k, v, attn_mask=seen)
    return mixed.reshape(-1, heads.dim).index_select(0, view.back).view(q.shape[0], -1).to(q.dtype)


def _exact(grid: Tensor, k: Tensor, v: Tensor, mask: Tensor, heads: Heads) -> Tensor:
    decisions, slots, keys = mask.shape
    weights = torch.bmm(grid, k.transpose(1, 2))
    weights.view(decisions, heads.kv, slots, heads.repeat, keys).add_(mask[:, None, :, None])
    weights = weights.softmax(-1)
    mixed = torch.bmm(weights[:, :, :KEYS_AT_ONCE], v[:, :KEYS_AT_ONCE])
    for start in range(KEYS_AT_ONCE, keys, KEYS_AT_ONCE):
        end = start + KEYS_AT_ONCE
        mixed.baddbmm_(weights[:, :, start:end], v[:, start:end])
    return mixed
