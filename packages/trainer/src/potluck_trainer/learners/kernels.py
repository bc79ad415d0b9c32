"""Pieces of a decoder layer with their gradients in closed form: they keep less, and walk over memory fewer times, than
autograd's own record of the same formulas. Axes: T tokens, D width, H heads, d = head_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional


class Patch(NamedTuple):
    """A LoRA pair at work: rows (tokens) and columns (outputs) of a stacked linear that it adds scale · B A x to."""

    rows: slice
    columns: slice
    scale: float


class Norm(Function):
    """Root-mean-square norm over the last axis, statistics in float32: x / sqrt(mean(x²) + eps) · w."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, inverse)
        return weight * (wide * inverse).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        x, weight, inverse = ctx.saved_tensors
        scaled = grads[0].float() * weight.float()
        wide = x.float()
        share = (scaled * wide).mean(-1, keepdim=True) * inverse.square()
        return ((scaled - wide * share) * inverse).to(x.dtype), None, None


class Turn(Function):
    """Rotary positions on [T, H, d]: the halves are turned by the token's angles; the gradient is turned back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(grads[0], cos, -sin), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Gate(Function):
    """silu(gate) · up of [gate, up] side by side; the gate's silu is computed again for the gradient."""

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        ctx.save_for_backward(both)
        gate, up = both.chunk(2, dim=-1)
        return functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor]:
        gate, up = ctx.saved_tensors[0].chunk(2, dim=-1)
        out = torch.empty_like(ctx.saved_tensors[0])
        for_gate, for_up = out.chunk(2, dim=-1)
        torch.mul(grads[0], functional.silu(gate), out=for_up)
        for_gate.copy_(torch.ops.aten.silu_backward(grads[0] * up, gate))
        return (out,)


class Adapted(Function):
    """x Wᵀ + b with the frozen W once for all tokens, and each adapter's pair on its own rows and columns.

    Only the pairs get gradients, and x where something below needs one; W never does. Products run in the type of x,
    the pairs' gradients come in theirs.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, patches: tuple[Patch, ...], *pairs: Tensor
    ) -> Tensor:
        y = functional.linear(x, weight, bias)
        thin = []
        for (rows, columns, scale), a, b in zip(patches, pairs[::2], pairs[1::2], strict=True):
            low = x[rows] @ a.to(x.dtype).T
            y[rows, columns].addmm_(low, b.to(x.dtype).T, alpha=scale)
            thin.append(low)
        ctx.patches = patches
        ctx.save_for_backward(x, weight, *pairs, *thin)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *rest = ctx.saved_tensors
        grad, count = grads[0], len(ctx.patches)
        pairs, thin = rest[: 2 * count], rest[2 * count :]
        for_x = grad @ weight if ctx.needs_input_grad[0] else None
        out: list[Tensor | None] = []
        for (rows, columns, scale), a, b, low in zip(ctx.patches, pairs[::2], pairs[1::2], thin, strict=True):
            own = grad[rows, columns]
            for_low = (own @ b.to(own.dtype)) * scale
            out += [(for_low.T @ x[rows]).to(a.dtype), (own.T @ low).to(b.dtype) * scale]
            if for_x is not None:
                for_x[rows].addmm_(for_low, a.to(own.dtype))
        return for_x, None, None, None, *out


norm: Callable[[Tensor, Tensor, float], Tensor] = Norm.apply
turn: Callable[[Tensor, Tensor, Tensor], Tensor] = Turn.apply
gate: Callable[[Tensor], Tensor] = Gate.apply
adapted: Callable[..., Tensor] = Adapted.apply
