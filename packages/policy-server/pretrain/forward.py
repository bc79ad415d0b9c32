"""The decoder's forward pass for training: the same function as transformers' Qwen3, at a third of its cost.

The last layer is computed only where a loss needs it, projections are merged, and rows carry a mask of their own: many
questions follow one prompt side by side, none sees another, and each stands at the position it would have in a prompt
of its own.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pretrain.corpus import Rows


def final_states(body: Any, inputs: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Final hidden states at the picked columns (row, picked, hidden), and what entered the last layer there."""
    turns = _rotation(body, rows.positions)
    for layer in body.layers[:-1]:
        inputs = _layer(layer, inputs, inputs, turns, turns, rows.mask)
    which = torch.arange(len(inputs))[:, None], rows.picked
    entering = inputs[which]
    picked_turns = turns[0][which], turns[1][which]
    out = _layer(body.layers[-1], entering, inputs, picked_turns, turns, rows.mask[which])
    return _normed(body.norm, out), entering


def _normed(norm: Any, states: Tensor) -> Tensor:
    return functional.rms_norm(states, states.shape[-1:], norm.weight, norm.variance_epsilon)


def _rotation(body: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    angles = positions[..., None] * body.rotary_emb.inv_freq
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def _turned(states: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate (row, place, head, width) by position."""
    low, high = states.chunk(2, dim=-1)
    return states * turns[0][:, :, None] + torch.cat([-high, low], dim=-1) * turns[1][:, :, None]


def _layer(
    layer: Any, asking: Tensor, all_: Tensor, at: tuple[Tensor, Tensor], turns: tuple[Tensor, Tensor], mask: Tensor
) -> Tensor:
    attention, mlp = layer.self_attn, layer.mlp
    width = attention.head_dim

    def project(states: Tensor, *linears: Any) -> tuple[Tensor, ...]:
        merged = functional.linear(states, torch.cat([linear.weight for linear in linears]))
        parts: tuple[Tensor, ...] = merged.reshape(*merged.shape[:-1], len(linears), -1, width).unbind(2)
        return parts

    normed = _normed(layer.input_layernorm, all_)
    if asking is all_:
        query, key, value = project(normed, attention.q_proj, attention.k_proj, attention.v_proj)
    else:
        (query,) = project(_normed(layer.input_layernorm, asking), attention.q_proj)
        key, value = project(normed, attention.k_proj, attention.v_proj)
    query = _turned(_normed(attention.q_norm, query), at).transpose(1, 2)
    key = _turned(_normed(attention.k_norm, key), turns).transpose(1, 2)
    found = functional.scaled_dot_product_attention(query, key, value.transpose(1, 2), attn_mask=mask[:, None])
    states = asking + attention.o_proj(found.transpose(1, 2).flatten(2))
    normed = _normed(layer.post_attention_layernorm, states)
    merged = functional.linear(normed, torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
    gate, up = merged.chunk(2, dim=-1)
    out: Tensor = states + mlp.down_proj(functional.silu(gate) * up)
    return out
