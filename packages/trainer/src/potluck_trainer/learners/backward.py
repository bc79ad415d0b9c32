"""Gradients of a decoder layer's pieces in closed form, from what the forward kept. What is cheap is computed again.

Axes: T tokens, H heads, d = head_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from potluck.decoder.attention import Heads
from potluck_trainer.learners.layout import Seen


def norm(grad: Tensor, x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Of x / sqrt(mean(x^2) + eps) * weight, with respect to x."""
    wide = x.to(grad.dtype)
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
    scaled = grad * weight
    share = (scaled * wide).mean(-1, keepdim=True).mul_(inverse.square())
    return torch.addcmul(scaled, wide, share, value=-1).mul_(inverse)


def turn(grad: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Of rotary positions on [T, H, d]: turned back."""
    left, right = grad.chunk(2, dim=-1)
    return torch.cat([torch.addcmul(left * cos, right, sin), torch.addcmul(right * cos, left, sin, value=-1)], dim=-1)


def gate(grad: Tensor, both: Tensor) -> Tensor:
    """Of silu(gate) * up, with respect to gate and up side by side."""
    one, up = both.to(grad.dtype).chunk(2, dim=-1)
    out = grad.new_empty(both.shape)
    for_gate, for_up = out.chunk(2, dim=-1)
    torch.mul(grad, functional.silu(one), out=for_up)
    for_gate.copy_(torch.ops.aten.silu_backward(grad * up, one))
    return out


def attend(grad: Tensor, q: Tensor, source: Tensor, seen: Seen, heads: Heads) -> tuple[Tensor, Tensor]:
    """Of attention, with respect to the queries [T, H d] and the source of keys and values."""
    rows, slots, keys = seen.view.mask.shape
    size = (rows * heads.kv, slots * heads.repeat, heads.dim)
    scale = heads.dim**-0.5
    grid = q.to(grad.dtype).reshape(-1, heads.dim).index_select(0, seen.view.there).mul_(scale).view(size)
    kv = source.to(grad.dtype).index_select(0, seen.keys).view(rows, keys, 2, heads.kv, heads.dim)
    k, v = (kv[:, :, half].transpose(1, 2).reshape(-1, keys, heads.dim) for half in (0, 1))
    weights = torch.bmm(grid, k.transpose(1, 2))
    by_slot = weights.view(rows, heads.kv, slots, heads.repeat, keys)
    by_slot.add_(seen.view.mask.to(grad.dtype)[:, None, :, None])
    weights = weights.softmax(-1)
    mixed = grad.new_zeros(size[0] * size[1], heads.dim).index_copy_(0, seen.view.back, grad.reshape(-1, heads.dim))
    mixed = mixed.view(size)
    scores = torch.ops.aten._softmax_backward_data(torch.bmm(mixed, v.transpose(1, 2)), weights, -1, weights.dtype)
    for_q = torch.bmm(scores, k).mul_(scale).view(-1, heads.dim).index_select(0, seen.view.back).view(len(q), -1)
    for_kv = grad.new_empty(rows, keys, 2, heads.kv, heads.dim)
    for half, one in enumerate((torch.bmm(scores.transpose(1, 2), grid), torch.bmm(weights.transpose(1, 2), mixed))):
        for_kv[:, :, half] = one.view(rows, heads.kv, keys, heads.dim).transpose(1, 2)
    out = grad.new_zeros(source.shape).index_add_(0, seen.keys, for_kv.view(rows * keys, -1))
    return for_q, out
