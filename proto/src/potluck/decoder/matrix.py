"""A weight matrix laid out for products x W^T whose rows do not depend on each other.

On a CPU in float32 a large matrix is kept in oneDNN's blocked layout: some 10 % faster than the plain product, and a
row's bits are the same whatever other rows are multiplied with it. A call costs some 70 us, and 1 ms for each new
number of rows, so matrices of fewer than `LARGE` numbers, a small base's and LoRA's, are multiplied as they are. The
plain product keeps rows apart from four rows on (below, BLAS takes other kernels), so fewer rows are padded. bfloat16
weights on a CPU without bfloat16 instructions are kept as the same numbers in float32: torch would emulate the product
at a sixth of the speed. Whether rows are really independent is asked of every backbone at load (check.py).
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
LARGE = 1 << 18


class Matrix:
    """A weight [out, in] and, where it is laid out for a bias, its bias [out]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, pack: bool = False) -> None:
        self.shape = weight.shape
        self._dtype = self._kind = weight.dtype
        self._packed: Tensor | None = None
        if pack and (kind := packable(weight)) is not None:
            self._kind = kind
            if weight.numel() >= LARGE:
                self._packed = _ONEDNN._reorder_linear_weight(weight.to(kind).contiguous(), 64)
        self._turned = None if self._packed is not None else weight.to(self._kind).t()
        self._bias = None if bias is None else bias.to(self._kind)

    @property
    def size(self) -> int:
        """Bytes of its own."""
        return int(self.shape.numel()) * self._kind.itemsize

    def product(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """[rows, in] -> [rows, out] in the weight's type, added to `onto` if it is given, which stays as it is."""
        if self._turned is None or self._kind is not self._dtype or (onto is not None and self._bias is not None):
            y = self._product(x.to(self._kind), None).to(self._dtype)
            return y if onto is None else y.add_(onto)
        return self._product(x, onto)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Adds the product to y [rows, out], in place; the bits are those of `product`."""
        as_it_is = self._kind is self._dtype and self._bias is None and len(x) >= FEWEST_ROWS
        if self._turned is not None and as_it_is:
            y.addmm_(x, self._turned)
        else:
            y.copy_(self.product(x, y))

    def _product(self, x: Tensor, onto: Tensor | None) -> Tensor:
        if self._turned is None:
            y: Tensor = _ONEDNN._linear_pointwise(x.contiguous(), self._packed, self._bias, "none", [], "")
            return y
        short = FEWEST_ROWS - x.shape[0]
        if short > 0:
            return self._product(_padded(x, short), None if onto is None else _padded(onto, short))[: x.shape[0]]
        start = self._bias if onto is None else onto
        return torch.mm(x, self._turned) if start is None else torch.addmm(start, x, self._turned)


def _padded(x: Tensor, rows: int) -> Tensor:
    return functional.pad(x, (0, 0, 0, rows))


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
