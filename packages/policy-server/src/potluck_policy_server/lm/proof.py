"""Guards inside the engines: attached weights act as the uploaded bytes say, and a prefix belongs to its adapter.

An attached adapter is asked once, layer by layer, what it does to a fixed probe; the answer is compared with the
uploaded matrices applied one after the other. That costs one row per layer and finds a lost, half or misplaced update
whichever code path serves it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from potluck.decoder.architecture import Decoder, Linear
from potluck.decoder.weights import Group, Weights, add_delta
from potluck_policy_server.errors import WrongWeights
from potluck_policy_server.lm.lora import Lora, scale_of

# Rounding of one row's update, relative to its norm; merged weights also round against the base's output.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}
_MERGED = 1e-5


def check_prefix(digest: str, ids: tuple[int, ...], wanted: str, asked: tuple[int, ...]) -> None:
    """Raises WrongWeights unless keys and values were computed from these ids under this adapter."""
    if digest != wanted or ids != asked:
        raise WrongWeights("a cached prefix belongs to other weights or other rules", wanted, digest)


def check_attached(decoder: Decoder, lora: Lora, weights: Weights) -> None:
    """Raises WrongWeights unless the attached weights do to a probe what the uploaded matrices do."""
    scale = scale_of(lora.config)
    for index, linear in enumerate(decoder.linears):
        x = _probe(linear.weight.shape[1], linear.weight)
        wanted, slack = _expected(linear, lora, x, scale), 0.0
        found = torch.zeros_like(wanted, dtype=x.dtype)
        if weights.merged is not None:
            base = linear.matrix.product(x)
            found = weights.merged[index].product(x) - base
            slack = _MERGED * float(base.norm())
        elif weights.deltas is not None:
            add_delta(found, x, Group(weights, 0, 1), weights.deltas[index])
        error = float((found.float() - wanted).norm())
        if not error <= _TOLERANCE[x.dtype] * float(wanted.norm()) + slack:
            message = f"the adapter {weights.digest[:16]} does not act on {linear.names[0]} as its matrices say"
            raise WrongWeights(message, weights.digest, "")


def check_loaded(peft_model: Any, name: str, lora: Lora) -> None:
    """Raises WrongWeights unless PEFT holds under `name` the uploaded tensors, all of them, at the right scale."""
    from peft import get_peft_model_state_dict

    held = get_peft_model_state_dict(peft_model, adapter_name=name)
    wrong = sorted(set(held) ^ set(lora.state)) or [
        key for key, value in lora.state.items() if not torch.equal(held[key].cpu(), value.to(held[key].dtype))
    ]
    scale = scale_of(lora.config)
    for path, module in peft_model.named_modules():
        found = getattr(module, "scaling", None)
        if isinstance(found, dict) and name in found and abs(found[name] - scale) > 1e-9 * abs(scale):
            wrong.append(f"{path}.scaling")
    if wrong:
        raise WrongWeights(f"PEFT holds something else than {wrong[0]!r} of the upload", name, "")


def _probe(width: int, like: Tensor) -> Tensor:
    """A row [1, width] of unequal values near 1, the same everywhere."""
    ramp = torch.arange(width, dtype=torch.float32, device=like.device)
    return torch.cos(ramp * 1.7 + 0.3).to(like.dtype)[None]


def _expected(linear: Linear, lora: Lora, x: Tensor, scale: float) -> Tensor:
    parts = []
    for name, size in zip(linear.names, linear.sizes, strict=True):
        a, b = (lora.state.get(f"base_model.model.{name}.lora_{half}.weight") for half in "AB")
        if a is None or b is None:
            parts.append(torch.zeros(1, size, device=x.device))
            continue
        wide = x.float()
        parts.append(wide @ a.to(x.device).float().T @ b.to(x.device).float().T * scale)
    return torch.cat(parts, dim=1)
