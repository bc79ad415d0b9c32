"""An agent's adapter at work: laid out for the forward as the policy server lays out an uploaded one, and where its
gradients go.

Only the adapter's own matrices get gradients, and a layer's input where something below needs one; the frozen weights
never do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from potluck.decoder.architecture import Decoder, Linear
from potluck.decoder.matrix import native_bfloat16
from potluck.decoder.weights import FROZEN, Lows, Pair, Weights, attach, merged_weight
from potluck_trainer.learners.layout import Owned

NARROW = 256
"""Hidden size up to which the gradient of W + B A is cheaper than those of LoRA's thin products."""


class Own(NamedTuple):
    """A LoRA pair that learns: y += scale * B A x."""

    a: Tensor
    b: Tensor
    scale: float


class Stack(NamedTuple):
    """The pairs of a stacked linear layer."""

    columns: tuple[slice, ...]
    """Which outputs each adds to."""
    pairs: tuple[Own, ...]
    a: Tensor
    """All A, stacked by rank."""
    merged: Tensor | None
    """W + B A, where that is what the forward multiplies with."""


@dataclass(frozen=True, slots=True)
class Attached:
    """An adapter as it is at one optimiser step."""

    weights: Weights
    stacks: tuple[Stack | None, ...]
    """Of each stacked linear layer of the decoder."""


def attached(decoder: Decoder, own: Mapping[str, Own]) -> Attached:
    """The adapter's present values, by module name."""
    kind = decoder.embed.dtype
    pairs = {
        name: Pair(one.a.detach().to(kind), (one.b.detach().float() * one.scale).to(kind)) for name, one in own.items()
    }
    merges = decoder.merges()
    stacks = tuple(_stack(linear, own, pairs, merges) for linear in decoder.linears)
    return Attached(attach(decoder, "", pairs, merges), stacks)


def bare(decoder: Decoder) -> Attached:
    """The frozen base."""
    return Attached(FROZEN, (None,) * len(decoder.linears))


def kind_of(decoder: Decoder) -> torch.dtype:
    """In which type gradients are computed."""
    slow = decoder.embed.device.type == "cpu" and not native_bfloat16()
    return torch.float32 if slow else decoder.embed.dtype


def backward(
    linear: Linear,
    index: int,
    grad: Tensor,
    x: Tensor,
    groups: Sequence[tuple[Owned, Attached]],
    lows: Lows,
    *,
    for_x: bool = True,
) -> Tensor | None:
    """Adds the adapters' gradients of stacked linear number `index`; returns x's, if it is wanted."""
    x = x.to(grad.dtype)
    stacks = [own.stacks[index] for _, own in groups]
    apart = all(one is None or one.merged is None for one in stacks)
    out = grad @ linear.weight.to(grad.dtype) if for_x and apart else None
    if for_x and out is None:
        out = torch.cat(
            [
                grad[rows.start : rows.end] @ (linear.weight if stack is None or stack.merged is None else stack.merged)
                for (rows, _), stack in zip(groups, stacks, strict=True)
            ]
        )
    for (rows, _), stack, low in zip(groups, stacks, lows, strict=True):
        if stack is None or rows.start == rows.end:
            continue
        part = slice(rows.start, rows.end)
        if stack.merged is not None and x.shape[1] <= NARROW:
            _from_whole(stack, grad[part], x[part])
            continue
        thin = _from_thin(stack, grad[part], x[part], low)
        if out is not None and stack.merged is None:
            out[part].addmm_(thin, stack.a.to(grad.dtype))
    return out


def _from_whole(stack: Stack, grad: Tensor, x: Tensor) -> None:
    whole = grad.T @ x
    for columns, one in zip(stack.columns, stack.pairs, strict=True):
        _add(one.a, (one.b.detach().T @ whole[columns]).mul_(one.scale))
        _add(one.b, (whole[columns] @ one.a.detach().T).mul_(one.scale))


def _from_thin(stack: Stack, grad: Tensor, x: Tensor, low: Tensor | None) -> Tensor:
    """The gradient of A x, all pairs side by side."""
    low = x @ stack.a.to(x.dtype).T if low is None else low.to(x.dtype)
    thin = grad.new_empty(low.shape)
    start = 0
    for columns, one in zip(stack.columns, stack.pairs, strict=True):
        end = start + one.a.shape[0]
        own = grad[:, columns]
        torch.mul(own @ one.b.detach().to(grad.dtype), one.scale, out=thin[:, start:end])
        _add(one.b, (own.T @ low[:, start:end]).mul_(one.scale))
        start = end
    for one, grads in zip(stack.pairs, torch.split(thin.T @ x, [one.a.shape[0] for one in stack.pairs]), strict=True):
        _add(one.a, grads)
    return thin


def _add(parameter: Tensor, grad: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = grad.to(parameter.dtype).contiguous()
    else:
        parameter.grad.add_(grad)


def _stack(linear: Linear, own: Mapping[str, Own], pairs: Mapping[str, Pair], merges: bool) -> Stack | None:
    columns, found, start = [], [], 0
    for name, size in zip(linear.names, linear.sizes, strict=True):
        if name in own:
            columns.append(slice(start, start + size))
            found.append(name)
        start += size
    if not found:
        return None
    a = torch.cat([pairs[name].a for name in found])
    return Stack(
        tuple(columns), tuple(own[name] for name in found), a, merged_weight(linear, pairs) if merges else None
    )
