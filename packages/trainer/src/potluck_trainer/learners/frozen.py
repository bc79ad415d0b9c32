"""The frozen weights of a plain decoder, shared by all agents, laid out for the packed training forward.

Plain means: rotary positions, root-mean-square norms, grouped-query attention over everything before, gated SiLU. Such
are Llama, Mistral without a window, Qwen2 and Qwen3. Query, key and value weights lie in one matrix, and so do gate and
up; the transformers modules keep views of them, so the base stays in memory once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

PLAIN = frozenset({"llama", "mistral", "qwen2", "qwen3"})
ROPE = frozenset({"default", "llama3", "linear"})
WIDEST = 256
"""Hidden size up to which a product with W + B A is cheaper than LoRA's thin products apart."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear layers of the same input, stacked by output."""

    names: tuple[str, ...]
    """Of the modules, below the decoder: `layers.3.mlp.gate_proj`."""
    sizes: tuple[int, ...]
    weight: Tensor
    bias: Tensor | None


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
    def merges(self) -> bool:
        """Whether adapters are added to the weights before the product."""
        return self.embed.shape[1] <= WIDEST and self.embed.dtype is torch.float32

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [token, 1, head_dim / 2]; transformers repeats them in both halves."""
        cos, sin = self.rotary(self.embed[:1], positions[None])
        half = self.head_dim // 2
        return cos[0, :, None, :half], sin[0, :, None, :half]

    def kept_bytes(self, layers: int) -> int:
        """About what a token's forward through so many layers keeps for its backward."""
        width, inner = self.embed.shape[1], self.layers[0].down.weight.shape[1]
        mixed = (3 * self.heads + 2 * self.kv_heads) * self.head_dim
        return layers * self.embed.element_size() * (6 * width + 3 * inner + 2 * mixed)


def is_plain(causal: Any) -> bool:
    """Whether the packed forward knows an architecture; it is compared with transformers' all the same."""
    config = causal.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    windows = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
    window = config.model_type == "mistral" and getattr(config, "sliding_window", None)
    known = config.model_type in PLAIN and config.hidden_act == "silu"
    return bool(known and rope in ROPE and not windows and not window)


def take(causal: Any) -> Decoder:
    """The decoder of a plain transformers model. Its linear weights become views of the stacked ones."""
    config, core = causal.config, causal.get_decoder()
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    return Decoder(
        embed=core.embed_tokens.weight.detach(),
        layers=tuple(_layer(layer, f"layers.{number}", heads, kv_heads) for number, layer in enumerate(core.layers)),
        final_norm=core.norm.weight.detach(),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        eps=config.rms_norm_eps,
        rotary=core.rotary_emb,
    )


def _layer(layer: Any, name: str, heads: int, kv_heads: int) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    head_norm = None
    if hasattr(attention, "q_norm"):
        queries = attention.q_norm.weight.detach().expand(heads, -1)
        keys = attention.k_norm.weight.detach().expand(kv_heads, -1)
        head_norm = torch.cat([queries, keys])
    return Layer(
        input_norm=layer.input_layernorm.weight.detach(),
        post_norm=layer.post_attention_layernorm.weight.detach(),
        qkv=_stack(attention, f"{name}.self_attn", ("q_proj", "k_proj", "v_proj")),
        out=_stack(attention, f"{name}.self_attn", ("o_proj",)),
        gate_up=_stack(mlp, f"{name}.mlp", ("gate_proj", "up_proj")),
        down=_stack(mlp, f"{name}.mlp", ("down_proj",)),
        head_norm=head_norm,
    )


def _stack(parent: Any, name: str, children: tuple[str, ...]) -> Linear:
    modules = [getattr(parent, child) for child in children]
    sizes = tuple(module.weight.shape[0] for module in modules)
    names = tuple(f"{name}.{child}" for child in children)
    biases = [module.bias for module in modules]
    bias = None if biases[0] is None else torch.cat([one.detach() for one in biases])
    if len(modules) == 1:
        return Linear(names, sizes, modules[0].weight.detach(), bias)
    weight = torch.cat([module.weight.detach() for module in modules])
    for module, view in zip(modules, torch.split(weight, list(sizes)), strict=True):
        module.weight.data = view
    return Linear(names, sizes, weight, bias)
