"""The rows of the output head that are needed, in float32: bfloat16 logits near 30 come in steps of 1/8."""

from __future__ import annotations

import torch
from torch import Tensor

PAIRS_AT_ONCE = 4096


def logits(hidden: Tensor, weight: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
    """The logit of one token for each of the rows of `hidden` [reads, width], float32. A logit's bits depend on no
    other one. Differentiable with respect to `hidden`."""
    pairs = zip(torch.split(rows, PAIRS_AT_ONCE), torch.split(tokens, PAIRS_AT_ONCE), strict=True)
    parts = [(hidden.index_select(0, at).float() * weight.index_select(0, one).float()).sum(-1) for at, one in pairs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
