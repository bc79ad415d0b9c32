"""A weight matrix laid out for products x W^T whose rows do not depend on each other.

On a CPU in float32 the matrix is kept in oneDNN's blocked layout: some 10 % faster than the plain product, and a row's
bits are the same whatever other rows are multiplied with it. The plain product keeps that promise from four rows on
(below, BLAS takes other kernels), so fewer rows are padded. bfloat16 weights on a CPU without bfloat16 instructions are
packed as the same numbers in float32: torch would emulate the product at a sixth of the speed. Whether rows are really
independent is asked of every backbone at load (check.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_ONEDNN: Any = torch.ops.mkldnn
_BACKEND: Any = torch.backends.mkldnn
FEWEST_ROWS = 4
"""Below this many rows the plain product takes kernels that round in another order."""


class Matrix:
    """A weight [out, in] and, where it is laid out for a bias, its bias [out]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, pack: bool = False) -> None:
        self.shape = weight.shape
        self._dtype = weight.dtype
        self._bias = bias
        self._packed: Tensor | None = None
        self._plain: Tensor | None = weight
        if pack and (kind := packable(weight)) is not None:
            self._packed = _ONEDNN._reorder_linear_weight(weight.to(kind).contiguous(), 64)
            self._kind, self._plain = kind, None
            self._bias = None if bias is None else bias.to(kind)

    @property
    def size(self) -> int:
        """Bytes of its own."""
        kind = self._dtype if self._packed is None else self._kind
        return int(self.shape.numel()) * kind.itemsize

    def product(self, x: Tensor) -> Tensor:
        """[rows, in] -> [rows, out] in the weight's type."""
        if self._packed is not None:
            y = _packed_product(x.to(self._kind), self._packed, self._bias)
            return y.to(self._dtype)
        assert self._plain is not None
        short = FEWEST_ROWS - x.shape[0]
        if short <= 0:
            return functional.linear(x, self._plain, self._bias)
        return functional.linear(functional.pad(x, (0, 0, 0, short)), self._plain, self._bias)[: x.shape[0]]


def packable(weight: Tensor) -> torch.dtype | None:
    """The type in which a weight would be packed; None where it stays as it is."""
    known = hasattr(_ONEDNN, "_reorder_linear_weight") and hasattr(_ONEDNN, "_linear_pointwise")
    if weight.device.type != "cpu" or not _BACKEND.is_available() or not known:
        return None
    if weight.dtype is torch.float32 or (weight.dtype is torch.bfloat16 and not native_bfloat16()):
        return torch.float32
    return None


def native_bfloat16() -> bool:
    """True where the CPU multiplies bfloat16 itself."""
    able: Any = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16") or able.get("arm_bf16") or able.get("bf16"))


def _packed_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    y: Tensor = _ONEDNN._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
    return y
