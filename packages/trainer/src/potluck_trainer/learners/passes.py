"""A pass over a decoder: the forward of `potluck.decoder`, kept on a tape, and the way back.

The forward is the policy server's, operation by operation, so a decision's log-probabilities have the same bits there
and here. The tape holds, per token and layer, what entered, queries, keys and values, what attention mixed, what
entered the feed-forward part, gate and up, and LoRA's thin products; norms, gating and attention weights are computed
again on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from potluck.decoder.architecture import LINEARS, Decoder
from potluck.decoder.attention import Heads, attend
from potluck.decoder.layers import Angles, Finished, Projected, finish, norm, project
from potluck.decoder.weights import Group
from potluck_trainer.learners import attached, backward
from potluck_trainer.learners.attached import Attached
from potluck_trainer.learners.layout import Layout, Owned, Seen, Text, lay_out


@dataclass(slots=True)
class Past:
    """Keys and values of a prefix [tokens, width] by layer, and the gradients that reached them."""

    kv: list[Tensor]
    grads: dict[int, Tensor] = field(default_factory=dict)

    def add(self, number: int, grad: Tensor) -> None:
        if number in self.grads:
            self.grads[number].add_(grad)
        else:
            self.grads[number] = grad.clone()


class Kept(NamedTuple):
    """A layer on the tape. `mixed` and `finished` are missing where keys and values were all that was wanted."""

    h: Tensor
    projected: Projected
    mixed: Tensor | None
    finished: Finished | None


class PackedDecoder:
    """A frozen decoder, laid out once for all agents."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.heads = Heads(decoder.heads, decoder.kv_heads, decoder.head_dim)
        self.width = 2 * decoder.kv_heads * decoder.head_dim
        """Numbers per token and layer: keys, then values."""
        self.bare = attached.bare(decoder)
        self.exact = decoder.embed.device.type == "cpu"
        self._angles = Angles(decoder)

    def begin(self, texts: Sequence[Text], pasts: Sequence[Past], owners: Sequence[Attached], keep: bool) -> Pass:
        """A pass over texts behind prefixes, under adapters by number; `keep` where it shall find its way back."""
        laid = lay_out(texts, [len(past.kv[0]) if past.kv else 0 for past in pasts], self.heads, self.device)
        return Pass(self, laid, pasts, owners, self._angles.at(laid.positions_T, laid.longest), keep)

    @property
    def device(self) -> torch.device:
        return self.decoder.embed.device

    def kept_bytes(self, layers: int) -> int:
        """About what a token's forward through so many layers keeps for its way back."""
        d = self.decoder
        size, inner = d.embed.element_size(), d.layers[0].down.weight.shape[1]
        return layers * size * (2 * d.embed.shape[1] + 2 * d.heads * d.head_dim + self.width + 2 * inner)


class Pass:
    """One pass. Its hidden states h_TD are given from layer to layer by the caller."""

    def __init__(
        self,
        packed: PackedDecoder,
        laid: Layout,
        pasts: Sequence[Past],
        owners: Sequence[Attached],
        angles: tuple[Tensor, Tensor],
        keep: bool,
    ) -> None:
        self.laid = laid
        self._packed, self._d = packed, packed.decoder
        self._pasts, self._owners, self._angles = pasts, owners, angles
        self._groups = self._group(laid.owned)
        self._read_groups = self._group(laid.read_owned)
        self._tape: list[tuple[int, Kept]] | None = [] if keep else None
        self._last: Tensor | None = None

    def embed(self) -> Tensor:
        """h_TD below the lowest layer."""
        return self._d.embed[self.laid.ids_T]

    def climb(self, h: Tensor, layers: range, keys: list[Tensor] | None = None) -> Tensor:
        """h_TD above these layers; into `keys` go the tokens' keys and values."""
        for number in layers:
            made = self._project(number, h)
            if keys is not None:
                keys.append(made.qkv[:, -self._packed.width :])
            mixed = self._attend(number, made.qkv[:, : -self._packed.width], made.qkv, self.laid.seen)
            done = finish(self._d, number, h, mixed, self._groups)
            self._keep(number, Kept(h, made, mixed, done))
            h = done.out
        return h

    def read(self, h: Tensor) -> Tensor:
        """Final states_RD: the last layer for what is read, and the norm."""
        number, at = len(self._d.layers) - 1, self.laid.reads_R
        made = self._project(number, h)
        mixed = self._attend(number, made.qkv[at, : -self._packed.width], made.qkv, self.laid.read_seen)
        done = finish(self._d, number, h[at], mixed, self._read_groups)
        self._keep(number, Kept(h, made, mixed, done))
        return norm(done.out, self._d.final_norm, self._d.eps)

    def last_keys(self, h: Tensor) -> Tensor:
        """Keys and values of the last layer; nothing else of it is needed of a prefix."""
        number = len(self._d.layers) - 1
        made = self._project(number, h)
        self._keep(number, Kept(h, made, None, None))
        return made.qkv[:, -self._packed.width :]

    def back(self, grad: Tensor | None, keys: dict[int, Tensor] | None = None) -> None:
        """From gradients of the final states_RD, or of the keys and values by layer, to the adapters and the prefixes.
        The tape is used up."""
        assert self._tape is not None
        kind = attached.kind_of(self._d)
        for_h: Tensor | None = None
        if grad is not None:
            done = self._tape[-1][1].finished
            assert done is not None
            for_h = backward.norm(grad.to(kind), done.out, self._d.final_norm, self._d.eps)
        lowest = self._tape[0][0]
        while self._tape:
            number, kept = self._tape.pop()
            reads = grad is not None and number == len(self._d.layers) - 1
            extra = None if keys is None else keys.get(number)
            for_h = self._layer_back(number, kept, for_h, extra, reads, number > lowest, kind)

    def _layer_back(
        self,
        number: int,
        kept: Kept,
        grad: Tensor | None,
        extra: Tensor | None,
        reads: bool,
        below: bool,
        kind: torch.dtype,
    ) -> Tensor | None:
        d, laid, width = self._d, self.laid, self._packed.width
        tokens = len(kept.h)
        for_qkv = torch.zeros(kept.projected.qkv.shape, dtype=kind, device=kept.h.device)
        for_h: Tensor | None = None
        if grad is not None and kept.mixed is not None and kept.finished is not None:
            groups = self._paired(laid.read_owned if reads else laid.owned)
            for_middle = self._feed_forward_back(number, kept.finished, grad, groups)
            for_mixed = attached.backward(
                d.layers[number].out, LINEARS * number + 1, for_middle, kept.mixed, groups, kept.finished.lows[0]
            )
            assert for_mixed is not None
            self._attend_back(number, kept.projected.qkv, for_mixed, for_qkv, reads)
            for_h = for_middle
            if reads:
                for_h = for_middle.new_zeros(tokens, for_middle.shape[1]).index_add_(0, laid.reads_R, for_middle)
        if extra is not None:
            for_qkv[:, -width:].add_(extra)
        self._turn_back(number, kept.projected, for_qkv)
        layer = d.layers[number]
        x = norm(kept.h, layer.input_norm, d.eps)
        for_x = attached.backward(
            layer.qkv, LINEARS * number, for_qkv, x, self._paired(laid.owned), kept.projected.lows, for_x=below
        )
        if for_x is None:
            return None
        out = backward.norm(for_x, kept.h, layer.input_norm, d.eps)
        return out if for_h is None else out.add_(for_h)

    def _feed_forward_back(
        self, number: int, done: Finished, grad: Tensor, groups: Sequence[tuple[Owned, Attached]]
    ) -> Tensor:
        d, first = self._d, LINEARS * number
        layer = d.layers[number]
        gate, up = done.both.chunk(2, dim=-1)
        inner = functional.silu(gate).mul_(up)
        for_inner = attached.backward(layer.down, first + 3, grad, inner, groups, done.lows[2])
        assert for_inner is not None
        for_both = backward.gate(for_inner, done.both)
        x = norm(done.middle, layer.post_norm, d.eps)
        for_x = attached.backward(layer.gate_up, first + 2, for_both, x, groups, done.lows[1])
        assert for_x is not None
        return backward.norm(for_x, done.middle, layer.post_norm, d.eps).add_(grad)

    def _attend_back(self, number: int, qkv: Tensor, grad: Tensor, for_qkv: Tensor, reads: bool) -> None:
        """Adds to the gradients of the tokens' queries, keys and values, and to those of the prefixes."""
        laid, width = self.laid, self._packed.width
        q = qkv[laid.reads_R, :-width] if reads else qkv[:, :-width]
        seen = laid.read_seen if reads else laid.seen
        for_q, for_source = backward.attend(grad, q, self._source(number, qkv), seen, self._packed.heads)
        if reads:
            for_qkv[:, :-width].index_add_(0, laid.reads_R, for_q)
        else:
            for_qkv[:, :-width] = for_q
        start = 1
        for past in self._pasts:
            end = start + len(past.kv[number])
            past.add(number, for_source[start:end])
            start = end
        for_qkv[:, -width:] = for_source[start:]

    def _turn_back(self, number: int, made: Projected, for_qkv: Tensor) -> None:
        d = self._d
        turned = for_qkv[:, : (d.heads + d.kv_heads) * d.head_dim]
        grad = backward.turn(turned.reshape(len(for_qkv), -1, d.head_dim), *self._angles)
        weight = d.layers[number].head_norm
        if weight is not None:
            assert made.unturned is not None
            grad = backward.norm(grad, made.unturned.view(grad.shape), weight, d.eps)
        turned.copy_(grad.view(turned.shape))

    def _project(self, number: int, h: Tensor) -> Projected:
        return project(self._d, number, h, self._angles, self._groups, keep=self._tape is not None)

    def _attend(self, number: int, q: Tensor, qkv: Tensor, seen: Seen) -> Tensor:
        heads = self._packed.heads
        rows, _, keys = seen.view.mask.shape
        kv = self._source(number, qkv).index_select(0, seen.keys).view(rows, keys, 2, heads.kv, heads.dim)
        return attend(q, kv, seen.view, heads, self._packed.exact)

    def _source(self, number: int, qkv: Tensor) -> Tensor:
        """A row of zeros, the prefixes' keys and values, the tokens' own."""
        own = qkv[:, -self._packed.width :]
        return torch.cat([own.new_zeros(1, own.shape[1]), *(past.kv[number] for past in self._pasts), own])

    def _keep(self, number: int, kept: Kept) -> None:
        if self._tape is not None:
            self._tape.append((number, kept))

    def _group(self, owned: Sequence[Owned]) -> tuple[Group, ...]:
        return tuple(Group(self._owners[one.owner].weights, one.start, one.end) for one in owned)

    def _paired(self, owned: Sequence[Owned]) -> list[tuple[Owned, Attached]]:
        return [(one, self._owners[one.owner]) for one in owned]
