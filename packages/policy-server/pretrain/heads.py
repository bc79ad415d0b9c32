"""A head start: the embedding fills a part of the hidden state, and heads look up what the rest is told.

Look-ups such as "what follows `hold`" need a head that copies the previous token and, a layer up, a head that matches
it. Left to chance both appear only after more tokens than a CPU sees in an hour; planted, with noise on top, they are
there from the first step and training shapes them. Only the look-back of the first layer stays as planted: early
gradients tear it down before anything can use it. The finished model is an ordinary Qwen3 all the same.

A hidden state starts as content (`CONTENT` places) and three codes, of the tokens one, two and three back. A code is a
projection of content without what many tokens share, and two features of the number. At `answer`, layer two fetches
the goal's key and the held thing; layer three what follows the key (directly, or two later), what precedes it, and
the label at the least distance.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

LOOK_BACK = (1, 2, 3)
CONTENT, CODE, FEATURES = 42, 16, 2
PLACE = CODE + FEATURES
SHARP, MATCHING = 2.3, 2.0
FAST = 3
TOLD, NOISE = 0.15, 0.02


class Shared(NamedTuple):
    """Directions that many tokens share (see `FactorisedEmbedding`), and the contents of some words."""

    common: Tensor
    label: Tensor
    goal: Tensor
    near: Tensor
    numbers: Tensor
    choose: Tensor
    own_key: Tensor
    mate: Tensor


def drawn(*sizes: int, std: float, hidden: int) -> Tensor:
    """Random content: nothing beyond the first places."""
    return torch.cat([torch.randn(*sizes, CONTENT) * std, torch.zeros(*sizes, hidden - CONTENT)], dim=-1)


@torch.no_grad()
def plant_heads(body: Any, shared: Shared) -> None:
    """Write the head start into a freshly drawn body."""
    width, hidden, theta = body.config.head_dim, body.config.hidden_size, body.config.rope_parameters["rope_theta"]
    read = torch.zeros(PLACE, hidden)
    taken = [shared.common, shared.label, shared.goal, shared.near, *shared.numbers]
    basis = torch.linalg.qr(torch.stack(taken, dim=1)).Q
    free = torch.eye(hidden) - basis @ basis.T
    free[:, CONTENT:] = 0
    read[:CODE] = _orthogonal_in(free, CODE)
    read[CODE:] = torch.stack([_apart(f, torch.stack(taken[:4], dim=1)) for f in shared.numbers]) * 2
    places = [torch.zeros(PLACE, hidden) for _ in LOOK_BACK]
    for i, place in enumerate(places):
        place[:, CONTENT + i * PLACE : CONTENT + (i + 1) * PLACE] = torch.eye(PLACE)
    codes = read[:CODE], *(place[:CODE] for place in places)
    first, middle, last = (layer.self_attn for layer in body.layers)
    speeds = theta ** (-torch.arange(FAST) * 2 / width)
    unit = shared.common / shared.common.square().sum() / 2
    for head, offset in enumerate(LOOK_BACK):
        key, query = _looking_back(offset, speeds, width)
        value = _rows(read, width)
        _set(
            first, head, torch.outer(query, unit), torch.outer(key, unit), value, _rows(places[head], width).T * TOLD, 0
        )
    slow, rest = _slow(width)
    const = unit * 2
    aside = torch.eye(hidden) - basis[:, :1] @ basis[:, :1].T
    aside[:, CONTENT:] = 0

    beside = aside - read[:CODE].T @ read[:CODE]

    def content() -> Tensor:
        return torch.cat([read[:CODE], _orthogonal_in(beside, width - CODE)])

    def code_of(vector: Tensor) -> Tensor:
        code = codes[0] @ vector
        return code / code.norm()

    asking = _apart(shared.goal, torch.stack([shared.common, shared.label], dim=1))
    asking = asking / (asking @ shared.goal)
    no_mate = codes[1] - torch.outer(code_of(shared.own_key), code_of(shared.mate) @ codes[2])
    choose, idle = code_of(shared.choose), torch.outer(rest, const)
    asked, found = slow @ no_mate - torch.outer(rest, choose @ codes[2]) * 2, slow @ codes[0]
    fetched = slow @ no_mate + idle * 0.3, asked + idle * 0.3
    for head, word in ((0, shared.choose), (1, shared.own_key)):
        query = slow @ torch.outer(code_of(word), asking) * 3 + idle
        out = content()
        if head == 0:
            _set(middle, head, query, fetched[0], out, out.T * 0.6)
        else:
            _set(middle, head, query, fetched[1], _rows(read, width), _rows(places[1], width).T * 0.4)
    itself = found - torch.outer(rest, choose @ codes[1]) * 2
    for head, query, key in ((0, found, asked), (1, slow @ (codes[0] + codes[2]), slow @ codes[2])):
        out = content()
        _set(last, head, query + idle * 0.5, key, out, out.T)
    _set(last, 2, found + idle * 0.5, itself, _rows(places[0], width), _rows(read, width).T)
    near = _apart(shared.near, torch.stack([shared.common, shared.label, shared.goal], dim=1))
    near = near / (near @ shared.near)
    mark = _apart(shared.label, torch.stack([shared.common, *shared.numbers], dim=1))
    mark = mark / (mark @ shared.label)
    by, to = slow[:, 0], slow[:, 1]
    query = torch.outer(to, const) - 2 * torch.outer(by, near)
    key = torch.outer(to, mark) + torch.outer(by, places[0][CODE]) + torch.outer(rest, const) * 0.5
    out = content()
    _set(last, 3, query, key, out, out.T)
    for depth, layer in enumerate(body.layers):
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight.fill_(MATCHING if depth else SHARP)
    keep_look_back(first, width)


def keep_look_back(attention: Any, width: int) -> None:
    """No gradient reaches the queries and keys that look back."""
    rows = len(LOOK_BACK) * width

    def hook(grad: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(grad[:rows]), grad[rows:]])

    for linear in (attention.q_proj, attention.k_proj):
        linear.weight.register_hook(hook)
    for norm in (attention.q_norm, attention.k_norm):
        norm.weight.requires_grad_(False)


def _set(
    attention: Any, head: int, query: Tensor, key: Tensor, value: Tensor, out: Tensor, noise: float = NOISE
) -> None:
    """Put a planted head in place of what is there, with noise."""
    rows = slice(head * len(query), (head + 1) * len(query))
    for linear, planted in ((attention.q_proj, query), (attention.k_proj, key), (attention.v_proj, value)):
        linear.weight[rows] = planted + noise * torch.randn_like(planted)
    attention.o_proj.weight[:, rows] = out


def _apart(mark: Tensor, others: Tensor) -> Tensor:
    """What is left of a vector beside the span of others."""
    basis = torch.linalg.qr(others).Q
    return mark - basis @ (basis.T @ mark)


def _orthogonal_in(space: Tensor, rows: int) -> Tensor:
    """Random orthonormal rows, as far as the projection has room for them."""
    vectors, sizes, _ = torch.linalg.svd(space)
    room = vectors[:, sizes > 0.5]
    return (room @ torch.nn.init.orthogonal_(torch.empty(room.shape[1], rows))).T


def _rows(matrix: Tensor, count: int) -> Tensor:
    return torch.cat([matrix, torch.zeros(count - len(matrix), matrix.shape[1])])


def _slow(width: int) -> tuple[Tensor, Tensor]:
    """Places codes in the dimensions that position hardly rotates; and one such dimension that is left."""
    half = width // 2
    dims = [*range(half - CODE // 2, half), *range(width - CODE // 2, width)]
    out = torch.zeros(width, CODE)
    for i, dim in enumerate(dims):
        out[dim, i] = 1.0
    rest = torch.zeros(width)
    rest[half - CODE // 2 - 1] = 1.0
    return out, rest


def _looking_back(offset: int, speeds: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Key and query whose rotated product peaks `offset` tokens back."""
    key, query = torch.zeros(width), torch.zeros(width)
    key[:FAST] = 1.0
    query[:FAST] = torch.cos(offset * speeds)
    query[width // 2 : width // 2 + FAST] = -torch.sin(offset * speeds)
    return key, query
