"""LoRA adapters in PEFT's format: an upload checked against the base and turned into immutable pairs of matrices.

A name that matches nothing, a missing half, or a module that the config targets and the file lacks would silently leave
the base model (or a part of it) in charge. So the tensors must be exactly those that the config promises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from potluck.decoder.weights import Pair
from potluck_policy_server.backbones.base import Adapter, Upload
from potluck_policy_server.errors import InvalidRequest
from potluck_policy_server.safefile import Entry, content_digest, header

_KEY = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<half>[AB])\.weight")
_LAYER = re.compile(r"\.layers\.(\d+)\.")
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
# Settings that change what the two matrices mean; each must have its plain value.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "bias": ("none", None),
    "use_dora": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, []),
}


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter's pairs by module name, e.g. "model.layers.0.self_attn.q_proj", and what PEFT needs to load it."""

    pairs: Mapping[str, Pair]
    config: Mapping[str, Any]
    state: Mapping[str, torch.Tensor]
    """The tensors as uploaded."""

    def content(self) -> str:
        """Content digest of the tensors that are held."""
        names = {kind: name for name, kind in _DTYPES.items()}
        return content_digest(
            (name, names[t.dtype], tuple(t.shape), t.contiguous().view(torch.uint8).numpy().tobytes())
            for name, t in self.state.items()
        )


def read(upload: Upload, linears: Mapping[str, tuple[int, int]], dtype: torch.dtype, device: str) -> Adapter:
    """Checks an upload against the base's linear layers (name -> out, in) and returns the adapter."""
    rank, scale = _settings(upload.config)
    entries, _ = header(upload.data)
    halves = _halves(entries)
    _check_modules(upload.config, set(halves), linears)
    for module, pair in halves.items():
        _check_shapes(module, pair, rank, linears[module])
    state = {name: _tensor(upload.data, entry) for name, entry in entries.items()}
    broken = [name for name, values in state.items() if not bool(torch.isfinite(values).all())]
    if broken:
        raise InvalidRequest(
            "chunk", f"{broken[0]} holds a value that is not finite", "check the learner for divergence"
        )
    pairs = {
        module: Pair(
            state[f"base_model.model.{module}.lora_A.weight"].to(device, dtype),
            (state[f"base_model.model.{module}.lora_B.weight"].float() * scale).to(device, dtype),
        )
        for module in halves
    }
    size = sum(t.numel() * t.element_size() for t in state.values())
    lora = Lora(pairs, dict(upload.config), state)
    return Adapter(upload.digest, upload.agent, size, lora, lora.content())


def scale_of(config: Mapping[str, Any]) -> float:
    """What B A is multiplied with, by a checked config."""
    return _settings(config)[1]


def _settings(config: Mapping[str, Any]) -> tuple[int, float]:
    if str(config.get("peft_type", "LORA")).upper() != "LORA":
        raise InvalidRequest(
            "config_json", f"peft_type is {config.get('peft_type')!r}", "only LORA adapters are served"
        )
    for name, plain in _PLAIN.items():
        if name in config and config[name] not in plain:
            raise InvalidRequest(
                "config_json", f"{name} = {config[name]!r} is not served", f"train with {name} = {plain[0]!r}"
            )
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or rank < 1 or not isinstance(alpha, int | float):
        raise InvalidRequest("config_json", "r and lora_alpha must be numbers, r at least 1")
    return rank, alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank


def _halves(entries: Mapping[str, Entry]) -> dict[str, dict[str, Entry]]:
    found: dict[str, dict[str, Entry]] = {}
    for name, entry in entries.items():
        match = _KEY.fullmatch(name)
        if match is None:
            raise InvalidRequest("chunk", f"unexpected tensor {name!r}", "save the adapter as PEFT does")
        found.setdefault(match["module"], {})[match["half"]] = entry
    if not found:
        raise InvalidRequest("chunk", "the adapter holds no tensors", "save the adapter as PEFT does")
    return found


def _check_modules(config: Mapping[str, Any], given: set[str], linears: Mapping[str, tuple[int, int]]) -> None:
    if unknown := sorted(given - set(linears)):
        raise InvalidRequest(
            "chunk", f"the base has no linear layer {unknown[0]!r}", "train on the base that is served"
        )
    expected = {name for name in linears if _targeted(name, config)}
    if missing := sorted(expected - given):
        raise InvalidRequest("chunk", f"the config targets {missing[0]!r}, but its tensors are missing")
    if extra := sorted(given - expected):
        raise InvalidRequest("chunk", f"tensors for {extra[0]!r}, which the config does not target")


def _targeted(name: str, config: Mapping[str, Any]) -> bool:
    targets = config.get("target_modules")
    if isinstance(targets, str):
        return targets == "all-linear" or re.fullmatch(targets, name) is not None
    if not any(name == target or name.endswith(f".{target}") for target in targets or ()):
        return False
    layers = config.get("layers_to_transform")
    if layers is None:
        return True
    match = _LAYER.search(name)
    return match is not None and int(match[1]) in ([layers] if isinstance(layers, int) else layers)


def _check_shapes(module: str, pair: Mapping[str, Entry], rank: int, shape: tuple[int, int]) -> None:
    out, inner = shape
    for half, expected in (("A", (rank, inner)), ("B", (out, rank))):
        if half not in pair:
            raise InvalidRequest("chunk", f"{module}.lora_{half}.weight is missing")
        if pair[half].shape != expected:
            raise InvalidRequest(
                "chunk", f"{module}.lora_{half} has shape {pair[half].shape}, the base needs {expected}"
            )


def _tensor(data: bytes, entry: Entry) -> torch.Tensor:
    """A copy, so that the upload's buffer can go."""
    return torch.frombuffer(bytearray(data[entry.start : entry.end]), dtype=_DTYPES[entry.dtype]).reshape(entry.shape)
