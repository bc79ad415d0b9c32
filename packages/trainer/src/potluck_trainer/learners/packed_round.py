"""One agent's decisions of a round, read through the packed decoder with as little work as the update allows.

Layers below the lowest adapted one form the trunk. It is frozen, so its states are computed once a round and reused by
all epochs and by the frozen reference; those of a prefix are kept from round to round. Above it a prefix runs once per
minibatch: its keys and values are leaves that collect what all microbatches send them, and `flush` carries the sum on
into the adapter. That is the gradient of full prompts, with the rules' cost paid once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from potluck_trainer.learners.packed_decoder import KeyValues, PackedDecoder, Pairs, Segment
from potluck_trainer.learners.packing import Packed

Ids = tuple[int, ...]
PREFIXES = 8
"""Prefixes whose trunk is kept."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A prefix below the adapters."""

    segment: Segment
    keys: KeyValues
    states: Tensor


@dataclass(frozen=True, slots=True)
class Opened:
    """A prefix above the trunk in the present minibatch."""

    graph: KeyValues
    leaves: KeyValues


class Reader:
    """A packed decoder with one agent's adapter."""

    def __init__(self, packed: PackedDecoder, pairs: Pairs) -> None:
        self.packed = packed
        self.pairs = pairs
        layers = len(packed.decoder.layers)
        self.lowest = min((int(name.split(".")[1]) for name in pairs), default=layers - 1)
        self.trained = layers - self.lowest
        self._rules: OrderedDict[Ids, Rules] = OrderedDict()

    @torch.no_grad()
    def rules(self, ids: Ids) -> Rules:
        """A prefix through the trunk."""
        found = self._rules.pop(ids, None)
        if found is None:
            segment = _prefix(ids, self.packed.decoder.embed.device)
            laid, keys = self.packed.lay_out([segment]), KeyValues()
            states = self.packed.climb(self.packed.embed([segment]), laid, range(self.lowest), [keys])
            found = Rules(segment, keys, states)
        self._rules[ids] = found
        if len(self._rules) > PREFIXES:
            self._rules.popitem(last=False)
        return found


class PackedRound:
    """Reads a round's samples by number."""

    def __init__(self, reader: Reader, keep: bool) -> None:
        self._reader = reader
        self._keep = keep
        self._trunk: dict[int, Tensor] = {}
        self._opened: dict[Ids, Opened] = {}
        self._frozen: dict[Ids, KeyValues] = {}

    def read(self, rows: Sequence[int], ids: Ids, batch: Packed, adapted: bool) -> Tensor:
        """Final states_RD at the branches of samples `rows`, which lie behind one prefix."""
        packed, reader = self._reader.packed, self._reader
        past = self._past(ids, adapted) if ids else None
        segment = _segment(batch, reader.pairs if adapted else {}, past, packed.decoder.embed.device)
        laid = packed.lay_out([segment])
        h = self._states(rows, segment, batch)
        h = packed.climb(h, laid, range(reader.lowest, len(packed.decoder.layers) - 1))
        return packed.finish(h, laid)

    def flush(self) -> None:
        """Carries the gradients that reached the prefixes into the adapter. Before every step."""
        for opened in self._opened.values():
            graph, grads = [], []
            for made, leaves in zip(opened.graph, opened.leaves, strict=True):
                for tensor, leaf in zip(made, leaves, strict=True):
                    if tensor.requires_grad and leaf.grad is not None:
                        graph.append(tensor)
                        grads.append(leaf.grad)
            if graph:
                torch.autograd.backward(graph, grads)
        self._opened.clear()

    def _past(self, ids: Ids, adapted: bool) -> KeyValues:
        rules = self._reader.rules(ids)
        if not adapted:
            if ids not in self._frozen:
                with torch.no_grad():
                    self._frozen[ids] = self._above(rules, {})
            return [*rules.keys, *self._frozen[ids]]
        if ids not in self._opened:
            graph = self._above(rules, self._reader.pairs)
            learns = torch.is_grad_enabled()
            leaves = [(k.detach().requires_grad_(learns), v.detach().requires_grad_(learns)) for k, v in graph]
            self._opened[ids] = Opened(graph, leaves)
        return [*rules.keys, *self._opened[ids].leaves]

    def _above(self, rules: Rules, pairs: Pairs) -> KeyValues:
        """Keys and values of a prefix from the lowest adapted layer on."""
        packed, keys = self._reader.packed, KeyValues()
        laid = packed.lay_out([replace(rules.segment, pairs=pairs)])
        h = packed.climb(rules.states, laid, range(self._reader.lowest, len(packed.decoder.layers) - 1), [keys])
        packed.last_keys(h, laid, [keys])
        return keys

    @torch.no_grad()
    def _states(self, rows: Sequence[int], segment: Segment, batch: Packed) -> Tensor:
        """The trunk's states of all tokens of some samples, row after row."""
        packed, lowest = self._reader.packed, self._reader.lowest
        if not lowest:
            return packed.embed([segment])
        if not all(n in self._trunk for n in rows):
            laid = packed.lay_out([segment])
            h = packed.climb(packed.embed([segment]), laid, range(lowest))
            if not self._keep:
                return h
            lengths = torch.bincount(batch.row_T, minlength=len(rows)).tolist()
            self._trunk |= dict(zip(rows, torch.split(h, lengths), strict=True))
        return torch.cat([self._trunk[n] for n in rows])


def _segment(batch: Packed, pairs: Pairs, past: KeyValues | None, device: torch.device) -> Segment:
    row_T, column_T = batch.row_T, batch.column_T
    count, width = batch.ids_NL.shape
    starts_N = torch.bincount(row_T, minlength=count).cumsum(0).roll(1)
    starts_N[0] = 0
    seen = batch.visible_NLL
    return Segment(
        pairs=pairs,
        ids_T=batch.ids_NL[row_T, column_T].to(device),
        positions_T=batch.positions_NL[row_T, column_T].to(device),
        rows=count,
        slots=width,
        row_T=row_T.to(device),
        slot_T=column_T.to(device),
        seen_NLL=(_causal(width) if seen is None else seen).to(device),
        reads_R=(starts_N[batch.branch_row_R] + batch.branch_column_R).to(device),
        past=past,
    )


def _prefix(ids: Ids, device: torch.device) -> Segment:
    """A prefix as one row that nothing is read of."""
    places = torch.arange(len(ids), device=device)
    return Segment(
        pairs={},
        ids_T=torch.tensor(ids, device=device),
        positions_T=places,
        rows=1,
        slots=len(ids),
        row_T=torch.zeros_like(places),
        slot_T=places,
        seen_NLL=_causal(len(ids)).to(device),
        reads_R=places[:0],
    )


def _causal(width: int) -> Tensor:
    return torch.ones(1, width, width, dtype=torch.bool).tril()
