"""The packed training forward of a plain decoder: rows of several adapters in one matrix, without padded tokens.

Base products run once for all tokens, LoRA's thin ones on each adapter's rows; only attention sees decisions apart, and
there a segment's rows share the keys and values of their prefix. The last layer computes queries, output and
feed-forward for the rows that are read only. Where a model is so small that thin products and their sums cost as much
as the base's, B A is added to each weight inside the graph instead (`Decoder.merges`).

Axes: T tokens of all segments, N rows (decisions) of a segment, L its slots, P prefix tokens, R reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from potluck_trainer.learners.frozen import Decoder, Layer, Linear
from potluck_trainer.learners.kernels import Patch, adapted, gate, norm, turn


class Pair(NamedTuple):
    """One LoRA pair: y += scale · B A x."""

    a: Tensor
    b: Tensor
    scale: float


Pairs = Mapping[str, Pair]
"""An adapter by module name; empty = the frozen base."""

KeyValues = list[tuple[Tensor, Tensor]]
"""Of a prefix, by layer: keys and values [kv_heads, P, head_dim]."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of one adapter behind one prefix."""

    pairs: Pairs
    ids_T: Tensor
    positions_T: Tensor
    rows: int
    slots: int
    row_T: Tensor
    slot_T: Tensor
    seen_NLL: Tensor
    """Which of the row's own slots each slot sees; [1, L, L] where all rows see alike."""
    reads_R: Tensor
    """Tokens whose final states are wanted."""
    past: KeyValues | None = None

    @property
    def tokens(self) -> int:
        return len(self.ids_T)


class Span(NamedTuple):
    """A segment's place among the tokens and reads of a pass, and what its queries see as an additive mask."""

    segment: Segment
    tokens: slice
    reads: slice
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Pass:
    """Segments laid out for one forward."""

    spans: tuple[Span, ...]
    cos: Tensor
    sin: Tensor
    reads_R: Tensor


class PackedDecoder:
    """A frozen decoder's forward under any adapters."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def lay_out(self, segments: Sequence[Segment]) -> Pass:
        """Everything about a pass that does not depend on the layer."""
        spans, token, read, reads = [], 0, 0, []
        for one in segments:
            spans.append(
                Span(one, slice(token, token + one.tokens), slice(read, read + len(one.reads_R)), self._mask(one))
            )
            reads.append(one.reads_R + token)
            token, read = token + one.tokens, read + len(one.reads_R)
        cos, sin = self.decoder.angles(torch.cat([one.positions_T for one in segments]))
        return Pass(tuple(spans), cos, sin, torch.cat(reads))

    def embed(self, segments: Sequence[Segment]) -> Tensor:
        """h_TD below the lowest layer."""
        return self.decoder.embed[torch.cat([one.ids_T for one in segments])]

    def climb(self, h: Tensor, laid: Pass, layers: range, keys: list[KeyValues] | None = None) -> Tensor:
        """h_TD above these layers, none of which is read from; into `keys` go every span's keys and values."""
        for number in layers:
            layer = self.decoder.layers[number]
            q, k, v = self._qkv(layer, number, h, laid)
            if keys is not None:
                for span, kept in zip(laid.spans, keys, strict=True):
                    kept.append((k[span.tokens].transpose(0, 1), v[span.tokens].transpose(0, 1)))
            mixed = torch.cat([self._attend(span, number, q, k, v) for span in laid.spans])
            h = self._rest(layer, h, mixed, laid, reads=False)
        return h

    def finish(self, h: Tensor, laid: Pass) -> Tensor:
        """Final states_RD: the last layer for what is read, and the norm."""
        number = len(self.decoder.layers) - 1
        layer = self.decoder.layers[number]
        q, k, v = self._qkv(layer, number, h, laid)
        mixed = torch.cat([self._attend(span, number, q, k, v)[span.segment.reads_R] for span in laid.spans])
        h = self._rest(layer, h[laid.reads_R], mixed, laid, reads=True)
        return norm(h, self.decoder.final_norm, self.decoder.eps)

    def last_keys(self, h: Tensor, laid: Pass, keys: list[KeyValues]) -> None:
        """Keys and values of the last layer; nothing else of it is needed of a prefix."""
        number = len(self.decoder.layers) - 1
        _, k, v = self._qkv(self.decoder.layers[number], number, h, laid)
        for span, kept in zip(laid.spans, keys, strict=True):
            kept.append((k[span.tokens].transpose(0, 1), v[span.tokens].transpose(0, 1)))

    def _qkv(self, layer: Layer, number: int, h: Tensor, laid: Pass) -> tuple[Tensor, Tensor, Tensor]:
        """[T, heads, head_dim] each, turned."""
        d = self.decoder
        x = norm(h, layer.input_norm, d.eps)
        flat = self._linear(layer.qkv, x, laid, reads=False).view(len(h), -1, d.head_dim)
        turning, v = torch.split(flat, [d.heads + d.kv_heads, d.kv_heads], dim=1)
        if layer.head_norm is not None:
            turning = norm(turning, layer.head_norm, d.eps)
        q, k = torch.split(turn(turning, laid.cos, laid.sin), [d.heads, d.kv_heads], dim=1)
        return q, k, v

    def _rest(self, layer: Layer, h: Tensor, mixed: Tensor, laid: Pass, *, reads: bool) -> Tensor:
        h = h + self._linear(layer.out, mixed, laid, reads)
        x = norm(h, layer.post_norm, self.decoder.eps)
        return h + self._linear(layer.down, gate(self._linear(layer.gate_up, x, laid, reads)), laid, reads)

    def _linear(self, linear: Linear, x: Tensor, laid: Pass, reads: bool) -> Tensor:
        places = [(span.reads if reads else span.tokens, span.segment.pairs) for span in laid.spans]
        groups = _joined(places)
        if self.decoder.merges:
            parts = [functional.linear(x[rows], merged(linear, pairs), linear.bias) for rows, pairs in groups]
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        patches: list[Patch] = []
        tensors: list[Tensor] = []
        for rows, pairs in groups:
            start = 0
            for name, size in zip(linear.names, linear.sizes, strict=True):
                if (pair := pairs.get(name)) is not None:
                    patches.append(Patch(rows, slice(start, start + size), pair.scale))
                    tensors += [pair.a, pair.b]
                start += size
        if not patches and not x.requires_grad:
            return functional.linear(x, linear.weight, linear.bias)
        return adapted(x, linear.weight, linear.bias, tuple(patches), *tensors)

    def _attend(self, span: Span, number: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Mixed values [tokens, heads · head_dim] of one segment."""
        d, one = self.decoder, span.segment
        repeat = d.heads // d.kv_heads
        queries = _padded(q[span.tokens], one).view(one.rows, one.slots, d.kv_heads, repeat, d.head_dim)
        queries = queries.permute(0, 2, 3, 1, 4).reshape(one.rows, d.kv_heads, repeat * one.slots, d.head_dim)
        keys, values = (_padded(part[span.tokens], one).transpose(1, 2) for part in (k, v))
        if one.past is not None:
            before = [part.expand(one.rows, -1, -1, -1) for part in one.past[number]]
            keys, values = torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=span.mask)
        mixed = mixed.view(one.rows, d.kv_heads, repeat, one.slots, d.head_dim).permute(0, 3, 1, 2, 4)
        return mixed[one.row_T, one.slot_T].reshape(one.tokens, -1)

    def _mask(self, one: Segment) -> Tensor:
        """[N or 1, 1, repeat · L, P + L]: 0 where a query sees, −inf elsewhere."""
        before = 0 if one.past is None or not one.past else one.past[-1][0].shape[1]
        seen = one.seen_NLL
        if before:
            seen = torch.cat([seen.new_ones(*seen.shape[:2], before), seen], dim=2)
        mask = torch.zeros(seen.shape, dtype=self.decoder.embed.dtype, device=seen.device)
        mask = mask.masked_fill_(~seen, -torch.inf).repeat(1, self.decoder.heads // self.decoder.kv_heads, 1)
        return mask[:, None]


def merged(linear: Linear, pairs: Pairs) -> Tensor:
    """The weight with an adapter added, in the graph."""
    parts, start = [], 0
    for name, size in zip(linear.names, linear.sizes, strict=True):
        weight = linear.weight[start : start + size]
        if (pair := pairs.get(name)) is not None:
            weight = torch.addmm(weight, pair.b, pair.a, alpha=pair.scale)
        parts.append(weight)
        start += size
    return linear.weight if not any(name in pairs for name in linear.names) else torch.cat(parts)


def _joined(places: Sequence[tuple[slice, Pairs]]) -> list[tuple[slice, Pairs]]:
    """Neighbours of one adapter as one."""
    out: list[tuple[slice, Pairs]] = []
    for rows, pairs in places:
        if out and out[-1][1] is pairs and out[-1][0].stop == rows.start:
            out[-1] = (slice(out[-1][0].start, rows.stop), pairs)
        else:
            out.append((rows, pairs))
    return out


def _padded(x: Tensor, one: Segment) -> Tensor:
    """[N, L, heads, head_dim] of [tokens, heads, head_dim]."""
    if one.tokens == one.rows * one.slots:
        return x.reshape(one.rows, one.slots, *x.shape[1:])
    grid = x.new_zeros(one.rows, one.slots, *x.shape[1:])
    return grid.index_put((one.row_T, one.slot_T), x)
