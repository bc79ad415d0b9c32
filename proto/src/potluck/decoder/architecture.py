"""The weights of a plain decoder, taken out of a transformers model.

Plain means: rotary positions, root-mean-square norms, grouped-query attention over everything before, gated SiLU. Such
are Llama, Mistral without a window, Qwen2 and Qwen3. Query, key and value weights lie in one matrix, and so do gate and
up; the transformers module keeps views of them, so the base stays in memory once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from potluck.decoder.matrix import Matrix

PLAIN = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_ROPE = ("default", "llama3", "linear")
LINEARS = 4
"""Stacked linear layers of a decoder layer: queries, keys and values; output; gate and up; down."""
PACK_BYTES = 1 << 30
"""Bases smaller than this (in float32) are kept a second time in a layout for fast products, by default."""
MERGE_BYTES = 64 << 20
"""Adapters of a float32 base whose linear layers are smaller than this are merged into a private copy, by default."""


@dataclass(frozen=True, slots=True)
class Linear:
    """One or more linear layers of the same input, stacked by output."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    weight: Tensor
    bias: Tensor | None
    matrix: Matrix
    """Weight and bias, laid out for products."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A decoder layer."""

    input_norm: Tensor
    post_norm: Tensor
    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    head_norm: Tensor | None
    """[heads + kv_heads, head_dim]: the norm of queries and keys per head, where the architecture has one."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A plain decoder's weights and sizes."""

    embed: Tensor
    layers: tuple[Layer, ...]
    final_norm: Tensor
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rotary: Any
    """The transformers module that turns positions into cosines and sines."""

    @property
    def linears(self) -> tuple[Linear, ...]:
        """All stacked linear layers, LINEARS a layer."""
        return tuple(linear for layer in self.layers for linear in (layer.qkv, layer.out, layer.gate_up, layer.down))

    def merges(self, merge_bytes: int = MERGE_BYTES) -> bool:
        """Whether adapters are added to the weights before the product."""
        size = sum(linear.weight.numel() * linear.weight.element_size() for linear in self.linears)
        return self.embed.dtype is torch.float32 and size <= merge_bytes


def is_plain(model: Any) -> bool:
    """True where the packed forward knows the architecture."""
    config = model.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    windows = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
    window = config.model_type == "mistral" and getattr(config, "sliding_window", None)
    known = type(model).__name__ in PLAIN and config.hidden_act == "silu"
    return bool(known and rope in _ROPE and not windows and not window)


def take(model: Any, pack_bytes: int = PACK_BYTES) -> Decoder:
    """The decoder of a plain transformers model. Its linear weights become views of the stacked ones. Where they are
    no larger than `pack_bytes`, a second copy is laid out for fast products (matrix.py)."""
    config, core = model.config, model.model
    pack = fits(model, pack_bytes)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    layers = tuple(
        _layer(layer, f"model.layers.{index}", config.num_attention_heads, config.num_key_value_heads, pack)
        for index, layer in enumerate(core.layers)
    )
    return Decoder(
        embed=core.embed_tokens.weight.detach(),
        layers=layers,
        final_norm=core.norm.weight.detach(),
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        eps=config.rms_norm_eps,
        rotary=core.rotary_emb,
    )


def fits(model: Any, pack_bytes: int) -> bool:
    """Whether the model's weights are small enough to be kept a second time, packed."""
    return bool(sum(p.numel() * max(4, p.element_size()) for p in model.parameters()) <= pack_bytes)


def _layer(layer: Any, name: str, heads: int, kv_heads: int, pack: bool) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    head_norm = None
    if hasattr(attention, "q_norm"):
        queries = attention.q_norm.weight.detach().expand(heads, -1)
        keys = attention.k_norm.weight.detach().expand(kv_heads, -1)
        head_norm = torch.cat([queries, keys])
    return Layer(
        input_norm=layer.input_layernorm.weight.detach(),
        post_norm=layer.post_attention_layernorm.weight.detach(),
        qkv=_stack(attention, f"{name}.self_attn", ("q_proj", "k_proj", "v_proj"), pack),
        out=_stack(attention, f"{name}.self_attn", ("o_proj",), pack),
        gate_up=_stack(mlp, f"{name}.mlp", ("gate_proj", "up_proj"), pack),
        down=_stack(mlp, f"{name}.mlp", ("down_proj",), pack),
        head_norm=head_norm,
    )


def _stack(parent: Any, name: str, children: tuple[str, ...], pack: bool) -> Linear:
    modules = [getattr(parent, child) for child in children]
    sizes = tuple(module.weight.shape[0] for module in modules)
    weight = torch.cat([module.weight.detach() for module in modules]).contiguous()
    bias = None
    if modules[0].bias is not None:
        bias = torch.cat([module.bias.detach() for module in modules])
    for module, view in zip(modules, torch.split(weight, list(sizes)), strict=True):
        module.weight.data = view
    return Linear(tuple(f"{name}.{child}" for child in children), sizes, weight, bias, Matrix(weight, bias, pack))
