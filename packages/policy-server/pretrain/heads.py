"""A head start: attention heads that look back one, two or three tokens, and heads that match what those found.

Look-ups such as "what follows `hold`" need a head that copies the previous token and, a layer up, a head that matches
it. Left to chance both appear only after more tokens than a CPU sees in an hour; planted roughly, with noise on top,
they are there from the first step and training shapes them. The finished model is an ordinary Qwen3 all the same.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

LOOK_BACK = (1, 2, 3)
SHARP, MATCHING = 2.3, 2.0
FAST, SLOW_FROM = 3, 5
WRITE, NOISE = 0.15, 0.02


class Shared(NamedTuple):
    """Vectors that the embedding puts into every token, every label, and `answer` and `choose`."""

    common: Tensor
    label: Tensor
    goal: Tensor


@torch.no_grad()
def plant_heads(body: Any, shared: Shared) -> None:
    """Write the head start into a freshly drawn body."""
    width, hidden, theta = body.config.head_dim, body.config.hidden_size, body.config.rope_parameters["rope_theta"]
    common = shared.common
    aside = torch.eye(hidden) - torch.outer(common, common) / common.square().sum()
    reads = [_orthogonal(width, hidden) @ aside for _ in LOOK_BACK]
    base = _orthogonal(hidden, hidden)
    places = [base[:, [(i * width + j) % hidden for j in range(width)]] for i in range(len(LOOK_BACK))]
    first, middle, last = (layer.self_attn for layer in body.layers)
    speeds = theta ** (-torch.arange(FAST) * 2 / width)
    unit = common / common.square().sum() / 2
    for head, offset in enumerate(LOOK_BACK):
        key, query = _looking_back(offset, speeds, width)
        _set(first, head, torch.outer(query, unit), torch.outer(key, unit), reads[head], places[head])
    slow = _slow(width)[:, None]
    for attention, write in ((middle, 1.0), (last, 2.0)):
        for head in (0, 1):
            copied = _orthogonal(width, hidden) @ aside
            _set(attention, head, slow * reads[head], slow * places[head].T, copied, copied.T * write)
        copied = _orthogonal(width, hidden) @ aside
        _set(attention, 2, slow * copied, slow * copied, places[0].T, reads[0].T * write)
    after_goal, after_label = places[0] @ (reads[0] @ shared.goal), places[0] @ (reads[0] @ shared.label)
    found = _apart(after_goal, torch.stack([common, shared.label, after_label], dim=1))
    labels = _apart(shared.label, common[:, None])
    for attention, mark, write in ((middle, found, 3.0), (last, labels, 2.0)):
        copied = _orthogonal(width, hidden) @ aside
        query, key = _to_marked(common, mark, width)
        _set(attention, 3, query, key, copied, copied.T * write)
    for depth, layer in enumerate(body.layers):
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight.fill_(MATCHING if depth else SHARP)


def _set(attention: Any, head: int, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> None:
    """Add a planted head to the noise that is there."""
    rows = slice(head * len(query), (head + 1) * len(query))
    for linear, planted in ((attention.q_proj, query), (attention.k_proj, key), (attention.v_proj, value)):
        linear.weight[rows] = linear.weight[rows].clamp(-NOISE, NOISE) + planted
    attention.o_proj.weight[:, rows] = out * WRITE


def _apart(mark: Tensor, others: Tensor) -> Tensor:
    """What is left of a vector beside the span of others."""
    basis = torch.linalg.qr(others).Q
    return mark - basis @ (basis.T @ mark)


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


def _to_marked(common: Tensor, mark: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Query and key with which any token attends to the tokens before it that carry a mark."""
    found, rest = torch.zeros(width), torch.zeros(width)
    found[width // 2 - 1], rest[width // 2 - 2] = 1.0, 1.0
    own, constant = mark / mark.square().sum(), common / common.square().sum()
    return torch.outer(found - rest, constant), torch.outer(1.2 * found, own) + torch.outer(rest, constant)
