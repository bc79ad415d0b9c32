"""A head start: the embedding fills a part of the hidden state, and heads look up what the rest is told.

Look-ups such as "what follows `hold`" need a head that copies the previous token and, a layer up, a head that matches
it. Left to chance both appear only after more tokens than a CPU sees in an hour; planted, with noise on top, they are
there from the first step and training shapes them. Only the look-back of the first layer stays as planted: early
gradients tear it down before anything can use it. The finished model is an ordinary Qwen3 all the same.

A hidden state starts as content (`CONTENT` places) and three codes, of the tokens one, two and three back. A code is a
projection of content without what many tokens share, and two features of the number (of the token one back only). At
`answer`, layer two fetches the goal's key and the held thing; layer three what follows the key (directly, or two
later), what precedes it, and the label at the least distance.

A case (`when forge ready pick rope`) is decided at its label, in layer two: there the codes two and three back are
the state and the tool, and a line `forge ready` of the state has them as its own code and the one before. A head looks
for both at once, a neuron marks the label if they were found, and layer three fetches what is marked. So cases need
no more layers than plain keys. The places that the codes two and three back leave free hold four marks, set by planted
neurons and that head: a case's label, where to look if nothing matches (the word `state`; a goal's own pairs are
barred), whether something matched, and the label to fetch.
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
CODE_SIZE = 0.65


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
    when: Tensor
    pick: Tensor
    state: Tensor


def drawn(*sizes: int, std: float, hidden: int) -> Tensor:
    """Random content: nothing beyond the first places."""
    return torch.cat([torch.randn(*sizes, CONTENT) * std, torch.zeros(*sizes, hidden - CONTENT)], dim=-1)


class Codes:
    """What planted heads read and write: content, the four codes, and the vectors that mark a token's part."""

    def __init__(self, shared: Shared, hidden: int, width: int) -> None:
        self.shared, self.width = shared, width
        alike = [shared.common, shared.label, shared.goal, shared.near]
        basis = torch.linalg.qr(torch.stack([*alike, *shared.numbers], dim=1)).Q
        free = _content_only(torch.eye(hidden) - basis @ basis.T)
        self.read = torch.zeros(PLACE, hidden)
        self.read[:CODE] = _orthogonal_in(free, CODE)
        self.read[CODE:] = torch.stack([_apart(f, *alike) for f in shared.numbers]) * 2
        self.places = [torch.zeros(PLACE, hidden) for _ in LOOK_BACK]
        for i, place in enumerate(self.places):
            place[:, CONTENT + i * PLACE : CONTENT + (i + 1) * PLACE] = torch.eye(PLACE)
        self.case, self.pause, self.found, self.met = torch.cat([place[CODE:] for place in self.places[1:]])
        for place in self.places[1:]:
            place[CODE:] = 0
        self.own, self.one, self.two, self.three = self.read[:CODE], *(place[:CODE] for place in self.places)
        aside = _content_only(torch.eye(hidden) - basis[:, :1] @ basis[:, :1].T)
        self.beside = aside - self.own.T @ self.own
        self.slow, self.rest = _slow(width)
        self.const = shared.common / shared.common.square().sum()
        self.idle = torch.outer(self.rest, self.const)
        self.asking = _mark(shared.goal, shared.common, shared.label)
        barred = torch.outer(self.of(shared.own_key), self.of(shared.mate) @ self.two)
        self.after = self.slow @ (self.one - barred)  # `hold` after `mate` is not one's own
        self.after_elsewhere = self.after - torch.outer(self.rest, self.of(shared.choose) @ self.two) * 2

    def content(self) -> Tensor:
        """A random reading of content as wide as a head, the code foremost."""
        return torch.cat([self.own, _orthogonal_in(self.beside, self.width - CODE)])

    def of(self, vector: Tensor) -> Tensor:
        """The code of a word, of length one."""
        code = self.own @ vector
        unit: Tensor = code / code.norm()
        return unit


@torch.no_grad()
def plant_heads(body: Any, shared: Shared) -> None:
    """Write the head start into a freshly drawn body."""
    width, theta = body.config.head_dim, body.config.rope_parameters["rope_theta"]
    codes = Codes(shared, body.config.hidden_size, width)
    first, middle, last = (layer.self_attn for layer in body.layers)
    _plant_first(first, codes, theta)
    _plant_middle(middle, codes)
    _plant_pairs(middle, codes)
    _plant_marks(body.layers[0].mlp, body.layers[1].mlp, codes)
    _plant_last(last, codes)
    for depth, layer in enumerate(body.layers):
        for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
            norm.weight.fill_(MATCHING if depth else SHARP)
    keep_look_back(first, width)


def _plant_first(attention: Any, codes: Codes, theta: float) -> None:
    """What stands one, two and three back."""
    speeds = theta ** (-torch.arange(FAST) * 2 / codes.width)
    for head, offset in enumerate(LOOK_BACK):
        key, query = (torch.outer(part, codes.const / 2) for part in _looking_back(offset, speeds, codes.width))
        out = _rows(codes.places[head], codes.width).T * TOLD
        _set(attention, head, query, key, _rows(codes.read, codes.width), out, noise=0)


def _plant_middle(attention: Any, codes: Codes) -> None:
    """At `answer`: the goal's key becomes its content, the held thing its second code. Elsewhere: idle."""
    for head, word in ((0, codes.shared.choose), (1, codes.shared.own_key)):
        query = codes.slow @ torch.outer(codes.of(word), codes.asking) * 3 + codes.idle
        value = codes.content()
        key, out = codes.after + codes.idle * 0.3, value.T * 0.6
        if head == 1:
            key, value = codes.after_elsewhere + codes.idle * 0.3, _rows(codes.read, codes.width)
            out = _rows(codes.places[1], codes.width).T * 0.4
        _set(attention, head, query, key, value, out)


def _plant_pairs(attention: Any, codes: Codes) -> None:
    """At the label of a case: are the tokens two and three back, in a line of the state, beside each other?

    If not, the head rests on the word `state`, whose value is nothing. A rotation of the second code of a pair keeps it
    apart from the first. The goal holds each pair too, with `when` before it, which bars it.
    """
    turn = torch.nn.init.orthogonal_(torch.empty(CODE, CODE))
    query = codes.slow @ (codes.two + turn @ codes.three) + torch.outer(codes.rest, codes.case) * 0.75
    key = codes.slow @ (codes.own + turn @ codes.one) + torch.outer(codes.rest, codes.pause) * 6
    value = torch.cat([(codes.const - codes.pause)[None], codes.content()[: codes.width - 1]])
    out = torch.zeros(len(codes.const), codes.width)
    out[:, 0] = codes.found * 0.2
    _set(attention, 2, query, key, value, out)


def _plant_marks(first: Any, middle: Any, codes: Codes) -> None:
    """Neurons for the word `state`, a label after `pick`, what is two after `when`, a label whose pair was found."""
    shared = codes.shared
    state = _mark(shared.state + shared.common, shared.common, shared.label, shared.goal, shared.near)
    pick, when = (
        codes.of(word) @ back / CODE_SIZE for word, back in ((shared.pick, codes.one), (shared.when, codes.two))
    )
    for mlp, row, gate, up, out in (
        (first, 0, state - codes.const * 0.6, codes.const * 0.2, codes.pause * 0.13),
        (first, 1, pick - codes.const * 0.55, codes.const * 0.2, codes.case * 0.09),
        (first, 2, when - codes.const * 0.55, codes.const * 0.2, codes.pause * -0.09),
        (middle, 0, codes.found * 0.5, codes.case * 0.25, codes.met * 0.4),
    ):
        mlp.gate_proj.weight[row], mlp.up_proj.weight[row], mlp.down_proj.weight[:, row] = gate * 3, up, out


def _plant_last(attention: Any, codes: Codes) -> None:
    """What follows the key; what stands two after the key or the held thing; what precedes the key; what is nearest."""
    shared, own = codes.shared, codes.slow @ codes.own
    value = codes.content()
    _set(attention, 0, own + codes.idle * 0.5, codes.after_elsewhere, value, value.T)
    value = codes.content()
    query, key = codes.slow @ (codes.own + codes.two) + codes.idle, codes.slow @ codes.two
    _set(attention, 1, query, key + torch.outer(codes.rest, codes.met) * 2, value, value.T)
    elsewhere = own - torch.outer(codes.rest, codes.of(shared.choose) @ codes.one) * 2
    _set(
        attention, 2, own + codes.idle * 0.5, elsewhere, _rows(codes.places[0], codes.width),
        _rows(codes.read, codes.width).T,
    )  # fmt: skip
    near = _mark(shared.near, shared.common, shared.label, shared.goal)
    label = _mark(shared.label, shared.common, *shared.numbers)
    by, to = codes.slow[:, 0], codes.slow[:, 1]
    query = torch.outer(to, codes.const) - 2 * torch.outer(by, near)
    key = torch.outer(to, label) + torch.outer(by, codes.places[0][CODE]) + codes.idle * 0.5
    value = codes.content()
    _set(attention, 3, query, key, value, value.T)


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


def _apart(mark: Tensor, *others: Tensor) -> Tensor:
    """What is left of a vector beside the span of others."""
    basis = torch.linalg.qr(torch.stack(others, dim=1)).Q
    rest: Tensor = mark - basis @ (basis.T @ mark)
    return rest


def _mark(vector: Tensor, *others: Tensor) -> Tensor:
    """A reading that is one for a vector and nothing for others."""
    found = _apart(vector, *others)
    return found / (found @ vector)


def _content_only(space: Tensor) -> Tensor:
    space[:, CONTENT:] = 0
    return space


def _orthogonal_in(space: Tensor, rows: int) -> Tensor:
    """Random orthonormal rows, as far as the projection has room for them."""
    vectors, sizes, _ = torch.linalg.svd(space)
    room = vectors[:, sizes > 0.5]
    drawn: Tensor = room @ torch.nn.init.orthogonal_(torch.empty(room.shape[1], rows))
    return drawn.T


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
