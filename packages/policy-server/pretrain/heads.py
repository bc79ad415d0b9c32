"""A head start: attention heads that look back one, two or three tokens, and heads that match what those found.

Look-ups such as "what follows `hold`" need a head that copies the previous token and, a layer up, a head that matches
it. Left to chance both appear only after more tokens than a CPU sees in an hour; planted roughly, with noise on top,
they are there from the first step and training shapes them. The finished model is an ordinary Qwen3 all the same.
"""

from typing import Any

import torch
from torch import Tensor

LOOK_BACK = (1, 2, 3)
SHARP, MATCHING = 2.3, 1.9
FAST, SLOW_FROM = 3, 5
WRITE, NOISE = 0.15, 0.02


@torch.no_grad()
def plant_heads(body: Any, common: Tensor, label: Tensor) -> None:
    """Write the head start into a freshly drawn body; all tokens share the vector `common`, all labels `label`."""
    width, hidden = body.config.head_dim, common.numel()
    aside = torch.eye(hidden) - torch.outer(common, common) / common.square().sum()
    reads = [_orthogonal(width, hidden) @ aside for _ in LOOK_BACK]
    base = _orthogonal(hidden, hidden)
    places = [base[:, [(i * width + j) % hidden for j in range(width)]] for i in range(len(LOOK_BACK))]
    speeds = body.config.rope_parameters["rope_theta"] ** (-torch.arange(FAST) * 2 / width)
    for head, offset in enumerate(LOOK_BACK):
        key, query = _looking_back(offset, speeds, width)
        unit = common / common.square().sum() / 2
        _set(
            body.layers[0].self_attn, head, torch.outer(query, unit), torch.outer(key, unit), reads[head], places[head]
        )
    slow = _slow(width)[:, None]
    for layer in body.layers[1:]:
        for head in range(body.config.num_attention_heads):
            copied = _orthogonal(width, hidden) @ aside
            if head < len(LOOK_BACK):
                _set(layer.self_attn, head, slow * reads[head], slow * places[head].T, copied, copied.T)
            else:
                _set(layer.self_attn, head, slow * copied, slow * copied, places[0].T, reads[0].T)
    last = body.layers[-1].self_attn
    query, key = _to_labels(common, label, width)
    copied = _orthogonal(width, hidden) @ aside
    _set(last, body.config.num_attention_heads - 1, query, key, copied, copied.T * 2)
    for depth, layer in enumerate(body.layers):
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight.fill_(MATCHING if depth else SHARP)


def _set(attention: Any, head: int, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> None:
    """Add a planted head to the noise that is there."""
    rows = slice(head * len(query), (head + 1) * len(query))
    for linear, planted in ((attention.q_proj, query), (attention.k_proj, key), (attention.v_proj, value)):
        linear.weight[rows] = linear.weight[rows].clamp(-NOISE, NOISE) + planted
    attention.o_proj.weight[:, rows] = out * WRITE


def _orthogonal(rows: int, columns: int) -> Tensor:
    return torch.nn.init.orthogonal_(torch.empty(rows, columns))


def _slow(width: int) -> Tensor:
    """Marks the dimensions that position hardly rotates, the ones fit for matching content."""
    half = torch.arange(width // 2) >= SLOW_FROM
    return torch.cat([half, half]).float()


def _looking_back(offset: int, speeds: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Key and query whose rotated product peaks `offset` tokens back."""
    key, query = torch.zeros(width), torch.zeros(width)
    key[:FAST] = 1.0
    query[:FAST] = torch.cos(offset * speeds)
    query[width // 2 : width // 2 + FAST] = -torch.sin(offset * speeds)
    return key, query


def _to_labels(common: Tensor, label: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Query and key with which any token attends to the labels before it."""
    mark, rest = torch.zeros(width), torch.zeros(width)
    mark[width // 2 - 1], rest[width // 2 - 2] = 1.0, 1.0
    own, shared = label / label.square().sum(), common / common.square().sum()
    return torch.outer(mark - rest / 2, shared), torch.outer(3 * mark, own) + torch.outer(rest, shared)
