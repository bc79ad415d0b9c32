"""What a decoder layer computes. Callers lay tokens out and do the attention between `project` and `finish`.

Every operation treats a token without regard to the others (matrix.py, attention.py), so a token's bits depend neither
on what else is in the pass nor on how the pass was cut. What a gradient needs of the way is handed out, not computed
again.

Axes: T tokens, in groups of one adapter each (weights.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from potluck.decoder.architecture import LINEARS, Decoder
from potluck.decoder.weights import Group, Lows, apply


class Angles:
    """Cosines and sines by position, computed as they are needed."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._table = self._computed(512)

    def at(self, positions_T: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """[T, 1, head_dim / 2] each; no position is above `longest`."""
        cos, sin = self._table
        if longest >= cos.shape[0]:
            self._table = cos, sin = self._computed(1 << (longest + 1).bit_length())
        return cos.index_select(0, positions_T), sin.index_select(0, positions_T)

    def _computed(self, length: int) -> tuple[Tensor, Tensor]:
        """transformers repeats them in both halves."""
        decoder = self._decoder
        positions = torch.arange(length, device=decoder.embed.device)[None]
        cos, sin = decoder.rotary(decoder.embed[:1], positions)
        half = decoder.head_dim // 2
        return cos[0, :, None, :half].contiguous(), sin[0, :, None, :half].contiguous()


class Projected(NamedTuple):
    """Queries, keys and values side by side [T, (heads + 2 kv_heads) * head_dim], turned."""

    qkv: Tensor
    unturned: Tensor | None
    """Queries and keys before their norm, where there is one and it was asked for."""
    lows: Lows


class Finished(NamedTuple):
    """The second half of a layer."""

    out: Tensor
    middle: Tensor
    """What enters the feed-forward part."""
    both: Tensor
    """Gate and up side by side."""
    lows: tuple[Lows, Lows, Lows]
    """Of output, gate and up, down."""


def project(
    decoder: Decoder, number: int, h: Tensor, angles: tuple[Tensor, Tensor], groups: Sequence[Group], keep: bool = False
) -> Projected:
    """The layer's queries, keys and values of all tokens."""
    layer = decoder.layers[number]
    qkv, lows = apply(layer.qkv, LINEARS * number, norm(h, layer.input_norm, decoder.eps), groups)
    turned = qkv[:, : (decoder.heads + decoder.kv_heads) * decoder.head_dim]
    unturned = turned.clone() if keep and layer.head_norm is not None else None
    _turn(turned.view(len(h), -1, decoder.head_dim), layer.head_norm, decoder.eps, *angles)
    return Projected(qkv, unturned, lows)


def finish(decoder: Decoder, number: int, h: Tensor, mixed: Tensor, groups: Sequence[Group]) -> Finished:
    """The layer's output for what entered it and what its attention mixed."""
    layer, first = decoder.layers[number], LINEARS * number
    middle, out_lows = apply(layer.out, first + 1, mixed, groups, h)
    both, both_lows = apply(layer.gate_up, first + 2, norm(middle, layer.post_norm, decoder.eps), groups)
    gate, up = both.chunk(2, dim=-1)
    out, down_lows = apply(layer.down, first + 3, functional.silu(gate).mul_(up), groups, middle)
    return Finished(out, middle, both, (out_lows, both_lows, down_lows))


def norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, statistics in float32."""
    if x.dtype is torch.float32:
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        share, least = _number(1 / x.shape[-1], x.device), _number(eps, x.device)
        unit = x * length.square_().mul_(share).add_(least).rsqrt_()
        return unit if weight is None else unit.mul_(weight)
    wide = functional.rms_norm(x.float(), list(x.shape[-1:]), None, eps).to(x.dtype)
    return wide if weight is None else weight * wide


@lru_cache(maxsize=64)
def _number(value: float, device: torch.device) -> Tensor:
    """A number in float32. An operation with a Python number makes such a tensor anew each time."""
    with torch.inference_mode(False):
        return torch.tensor(value, dtype=torch.float32, device=device)


def _turn(x: Tensor, head_norm: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> None:
    """Norm per head, where there is one, and rotary positions, in place; x is [T, heads, head_dim]."""
    wide = x.clone() if head_norm is None else norm(x, head_norm, eps)
    (left, right), half = wide.chunk(2, dim=-1), x.shape[-1] // 2
    halves = (*x.shape[:-1], 2, half)
    torch.mul(wide.view(halves), cos[:, :, None], out=x.view(halves))
    x[..., :half].addcmul_(right, sin, value=-1)
    x[..., half:].addcmul_(left, sin)
