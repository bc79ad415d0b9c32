"""A training forward for small plain decoders (Llama, Mistral, Qwen2, Qwen3), exact but for rounding.

Where a model is so small that LoRA's thin products and their element-wise sums cost as much as the base's, it is
cheaper to add BA to each weight inside the graph and to multiply once, q, k, v and gate, up together. Of the last
layer only keys and values are needed everywhere, the rest only where labels are read. Larger models and other
architectures go through transformers and PEFT as they are (see menu_model.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from potluck_trainer.learners.packing import Packed

PLAIN = frozenset({"llama", "mistral", "qwen2", "qwen3"})
WIDEST = 256
"""Hidden size up to which merging pays."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One layer's weights, adapters merged in."""

    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class Turn:
    """Rotary angles and what each query sees; a mask of None is the causal one."""

    cos: torch.Tensor
    sin: torch.Tensor
    mask: torch.Tensor | None


def is_plain(causal: Any) -> bool:
    """Whether this forward covers a model."""
    config = causal.config
    return (
        config.model_type in PLAIN
        and config.hidden_size <= WIDEST
        and config.hidden_act == "silu"
        and not getattr(config, "use_sliding_window", False)
        and (config.model_type != "mistral" or not config.sliding_window)
        and causal.get_output_embeddings().weight.dtype is torch.float32
        and not any(getattr(layer.mlp.down_proj, "bias", None) is not None for layer in causal.get_decoder().layers)
    )


class MergedDecoder:
    """Reads hidden states at the labels' branches."""

    def __init__(self, causal: Any) -> None:
        self._core = causal.get_decoder()
        attention = self._core.layers[0].self_attn
        self._head_dim: int = attention.head_dim
        self._heads: int = causal.config.num_attention_heads
        self._kv_heads: int = causal.config.num_key_value_heads

    def read(self, batch: Packed) -> torch.Tensor:
        """hidden_RD at each branch, after the final norm."""
        prefix = self._prefix_turn(batch)
        suffix = self._suffix_turn(batch)
        h = self._core.embed_tokens(batch.ids_NL)
        p = self._core.embed_tokens(batch.prefix)
        layers = self._core.layers
        for layer in layers[:-1]:
            weights = _merge(layer)
            kv = None
            if batch.prefix.shape[1]:
                q, k, v = self._qkv(layer, weights, p, prefix)
                p = self._rest(layer, weights, p, self._attend(q, k, v, None))
                kv = (k, v)
            q, k, v = self._qkv(layer, weights, h, suffix)
            h = self._rest(layer, weights, h, self._attend(q, *_joined(kv, k, v), suffix.mask))
        h = self._last(layers[-1], p, h, batch, prefix, suffix)
        hidden: torch.Tensor = self._core.norm(h)
        return hidden

    def _last(
        self, layer: Any, p: torch.Tensor, h: torch.Tensor, batch: Packed, prefix: Turn, suffix: Turn
    ) -> torch.Tensor:
        weights = _merge(layer)
        kv = self._qkv(layer, weights, p, prefix)[1:] if batch.prefix.shape[1] else None
        q, k, v = self._qkv(layer, weights, h, suffix)
        k, v = _joined(kv, k, v)
        rows, columns = batch.branch_row_R, batch.branch_column_R
        if len(rows) == len(h) and bool((rows == torch.arange(len(h))).all()):
            q = q[rows, :, columns][:, :, None]
            assert suffix.mask is not None
            mask = suffix.mask.expand(len(h), -1, -1, -1)[rows, :, columns][:, :, None]
            mixed = self._attend(q, k, v, mask)[:, 0]
        else:
            mixed = self._attend(q, k, v, suffix.mask)[rows, columns]
        return self._rest(layer, weights, h[rows, columns], mixed)

    def _qkv(
        self, layer: Any, weights: Weights, h: torch.Tensor, turn: Turn
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        attention = layer.self_attn
        flat = functional.linear(layer.input_layernorm(h), weights.qkv, weights.qkv_bias)
        heads = flat.view(*flat.shape[:-1], -1, self._head_dim)
        q, k, v = torch.split(heads, [self._heads, self._kv_heads, self._kv_heads], dim=-2)
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm(q), attention.k_norm(k)
        return _rotate(q, turn).transpose(1, 2), _rotate(k, turn).transpose(1, 2), v.transpose(1, 2)

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        grouped = self._heads != self._kv_heads
        mixed = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped
        )
        return mixed.transpose(1, 2).flatten(2)

    def _rest(self, layer: Any, weights: Weights, h: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        h = h + functional.linear(mixed, weights.out)
        gate, up = functional.linear(layer.post_attention_layernorm(h), weights.gate_up).chunk(2, dim=-1)
        return h + functional.linear(functional.silu(gate) * up, weights.down)

    def _prefix_turn(self, batch: Packed) -> Turn:
        places = torch.arange(batch.prefix.shape[1])[None]
        return Turn(*self._angles(places), None)

    def _suffix_turn(self, batch: Packed) -> Turn:
        width = batch.ids_NL.shape[1]
        own = batch.visible_NLL
        if own is None:
            own = torch.tril(torch.ones(width, width, dtype=torch.bool))[None]
        seen = torch.ones(len(own), width, batch.prefix.shape[1], dtype=torch.bool)
        return Turn(*self._angles(batch.positions_NL), torch.cat([seen, own], dim=2)[:, None])

    def _angles(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = self._core.rotary_emb(self._core.embed_tokens.weight, places)
        return cos[:, :, None], sin[:, :, None]


def _joined(
    prefix: tuple[torch.Tensor, torch.Tensor] | None, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if prefix is None:
        return k, v
    before = [part.expand(len(k), -1, -1, -1) for part in prefix]
    return torch.cat([before[0], k], dim=2), torch.cat([before[1], v], dim=2)


def _rotate(x: torch.Tensor, turn: Turn) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * turn.cos + torch.cat([-second, first], dim=-1) * turn.sin


def _merge(layer: Any) -> Weights:
    attention, mlp = layer.self_attn, layer.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    biases = [bias for one in projections if (bias := getattr(_base(one), "bias", None)) is not None]
    return Weights(
        qkv=torch.cat([_effective(one) for one in projections]),
        qkv_bias=torch.cat(biases) if biases else None,
        out=_effective(attention.o_proj),
        gate_up=torch.cat([_effective(mlp.gate_proj), _effective(mlp.up_proj)]),
        down=_effective(mlp.down_proj),
    )


def _base(linear: Any) -> Any:
    return getattr(linear, "base_layer", linear)


def _effective(linear: Any) -> torch.Tensor:
    """The weight with its active adapters added."""
    weight: torch.Tensor = _base(linear).weight
    if linear is _base(linear) or linear.disable_adapters:
        return weight
    for name in linear.active_adapters:
        if name in linear.lora_A:
            weight = weight + linear.scaling[name] * (linear.lora_B[name].weight @ linear.lora_A[name].weight)
    return weight
