"""Decisions of a round, of one agent or of several, read through the packed decoder with as little work as the update
allows.

Layers below the lowest adapted one form the trunk. It is frozen, so its states are computed once a round and reused by
all epochs and by the frozen reference; those of a prefix are kept from round to round. Above it a prefix runs once per
minibatch: its keys and values collect what all microbatches send them, and `flush` carries the sum on into the adapter.
That is the gradient of full prompts, with the rules' cost paid once. What neighbouring decisions begin with in common
is computed once a pass (layout.py).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from potluck_trainer.learners import policies
from potluck_trainer.learners.attached import Attached, Own, attached
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.layout import Text, beginnings
from potluck_trainer.learners.passes import PackedDecoder, Pass, Past

Ids = tuple[int, ...]
PREFIXES = 8
"""Prefixes whose trunk is kept."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A prefix below the adapters."""

    keys: list[Tensor]
    states: Tensor


class Opened(NamedTuple):
    """A prefix above the trunk in the present minibatch."""

    run: Pass
    past: Past


class Entry(NamedTuple):
    """A decision of one agent."""

    owner: int
    sample: Sample


class Reader:
    """A packed decoder with one agent's adapter."""

    def __init__(self, packed: PackedDecoder, own: Mapping[str, Own]) -> None:
        self.packed = packed
        self._own = own
        layers = len(packed.decoder.layers)
        self.lowest = min((int(name.split(".")[2]) for name in own), default=layers - 1)
        self.trained = layers - self.lowest
        self._rules: OrderedDict[Ids, Rules] = OrderedDict()
        self._attached: tuple[tuple[int, ...], Attached] | None = None

    def attached(self) -> Attached:
        """The adapter's present values, laid out again after every change."""
        version = tuple(half._version for one in self._own.values() for half in (one.a, one.b))
        if self._attached is None or self._attached[0] != version:
            self._attached = version, attached(self.packed.decoder, self._own)
        return self._attached[1]

    def rules(self, ids: Ids) -> Rules:
        """A prefix through the trunk."""
        found = self._rules.pop(ids, None)
        if found is None:
            run, keys = self.packed.begin([Text(0, -1, ids)], [], [self.packed.bare], keep=False), list[Tensor]()
            found = Rules(keys, run.climb(run.embed(), range(self.lowest), keys))
        self._rules[ids] = found
        if len(self._rules) > PREFIXES:
            self._rules.popitem(last=False)
        return found


class Through(Function):
    """A pass as one step of autograd's; it adds the adapters' gradients itself."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, run: Pass, h: Tensor, layers: range) -> Tensor:
        ctx.run = run
        return run.read(run.climb(h, layers))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None, None]:
        ctx.run.back(grads[0])
        return None, None, None, None


class PackedRound:
    """Reads a round's decisions by number. They lie under the readers' adapters."""

    def __init__(self, readers: Sequence[Reader], entries: Sequence[Entry], head: Tensor, temperature: float) -> None:
        self._readers = readers
        self._packed = readers[0].packed
        self._lowest = min(reader.lowest for reader in readers)
        self._entries = entries
        self._head, self._temperature = head, temperature
        self._tries = [policies.trie_of(entry.sample.labels) for entry in entries]
        self._trunk: dict[int, Tensor] = {}
        self._opened: dict[tuple[int, Ids], Opened] = {}
        self._frozen: dict[Ids, Past] = {}

    def microbatches(self, rows: Sequence[int], size: int, memory: int) -> list[list[int]]:
        """Passes of at most `size` decisions of each agent, that keep about `memory` bytes, unless a single decision
        keeps more; neighbours begin alike."""
        tokens = memory // self._packed.kept_bytes(len(self._packed.decoder.layers) - self._lowest)
        certain = [n for n in rows if not self._tries[n].branches]
        order = sorted(set(rows) - set(certain), key=self._order)
        texts, _ = self._texts(order)
        passes: list[list[int]] = []
        held, counts = 0, Counter[int]()
        for n, text, common in zip(order, texts, beginnings(texts), strict=True):
            whole = len(text.ids) + len(text.trie.tokens)
            if not passes or counts[text.owner] == size or held + whole - common > tokens:
                passes.append([])
                held, counts = common, Counter()
            passes[-1].append(n)
            held += whole - common
            counts[text.owner] += 1
        if certain:
            passes[-1:] = [[*(passes[-1] if passes else []), *certain]]
        return passes

    def logp(self, rows: Sequence[int], adapted: bool = True) -> Tensor:
        """logp_NM of the decisions of a pass, in float64 on the CPU; -inf beyond the menu. A menu of one item is
        certain and has no gradient: it is not read."""
        one = policies.asked([self._tries[n] for n in rows], self._packed.device)
        hidden = self.states(rows, adapted) if len(one.read_K) else None
        return policies.logp(hidden, self._head, one, self._temperature)

    def states(self, rows: Sequence[int], adapted: bool = True) -> Tensor:
        """Final states_RD at the branching nodes."""
        rows = [n for n in rows if self._tries[n].branches]
        texts, numbers = self._texts(rows)
        learns = adapted and torch.is_grad_enabled()
        owners = [reader.attached() if adapted else self._packed.bare for reader in self._readers]
        pasts = [self._past(owner, ids, adapted, learns) for owner, ids in numbers]
        run = self._packed.begin(texts, pasts, owners, keep=learns)
        h, layers = self._states(rows, run), range(self._lowest, len(self._packed.decoder.layers) - 1)
        if learns:
            return _through(torch.zeros((), requires_grad=True), run, h, layers)
        with torch.no_grad():
            return run.read(run.climb(h, layers))

    def flush(self) -> None:
        """Carries the gradients that reached the prefixes into the adapters. Before every step."""
        for opened in self._opened.values():
            if opened.past.grads:
                opened.run.back(None, opened.past.grads)
        self._opened.clear()

    def _order(self, n: int) -> tuple[int, Ids, Ids, int]:
        owner, sample = self._entries[n]
        return owner, sample.prefix, sample.suffix, n

    def _texts(self, rows: Sequence[int]) -> tuple[list[Text], list[tuple[int, Ids]]]:
        """Decisions as texts, and the prefixes that they number."""
        numbers: dict[tuple[int, Ids], int] = {}
        texts = []
        for n in rows:
            owner, sample = self._entries[n]
            past = numbers.setdefault((owner, sample.prefix), len(numbers)) if sample.prefix else -1
            trie = self._tries[n]
            texts.append(Text(owner, past, sample.suffix, trie, policies.nodes(trie)))
        return texts, list(numbers)

    @torch.no_grad()
    def _past(self, owner: int, ids: Ids, adapted: bool, learns: bool) -> Past:
        reader = self._readers[owner]
        rules = reader.rules(ids)
        if not adapted:
            if ids not in self._frozen:
                self._frozen[ids] = self._above(rules, ids, self._packed.bare, keep=False).past
            return self._frozen[ids]
        if not learns:
            return self._above(rules, ids, reader.attached(), keep=False).past
        if (owner, ids) not in self._opened:
            self._opened[owner, ids] = self._above(rules, ids, reader.attached(), keep=True)
        return self._opened[owner, ids].past

    def _above(self, rules: Rules, ids: Ids, owner: Attached, keep: bool) -> Opened:
        """Keys and values of a prefix from the lowest adapted layer on."""
        keys = list(rules.keys)
        run = self._packed.begin([Text(0, -1, ids)], [], [owner], keep)
        h = run.climb(rules.states, range(self._lowest, len(self._packed.decoder.layers) - 1), keys)
        keys.append(run.last_keys(h))
        return Opened(run, Past(keys))

    @torch.no_grad()
    def _states(self, rows: Sequence[int], run: Pass) -> Tensor:
        """What enters the lowest adapted layer, of a pass's tokens."""
        if not self._lowest:
            return run.embed()
        missing = [n for n in rows if n not in self._trunk]
        if missing:
            self._run_trunk(missing)
        return torch.cat([self._trunk[n][start:] for n, start in zip(rows, run.laid.starts, strict=True)])

    def _run_trunk(self, rows: Sequence[int]) -> None:
        texts, numbers = self._texts(rows)
        pasts = [Past(self._readers[owner].rules(ids).keys) for owner, ids in numbers]
        run = self._packed.begin(texts, pasts, [self._packed.bare] * len(self._readers), keep=False)
        h = run.climb(run.embed(), range(self._lowest))
        before = h[:0]
        for n, start, new in zip(rows, run.laid.starts, torch.split(h, list(run.laid.sizes)), strict=True):
            self._trunk[n] = torch.cat([before[:start], new])
            before = self._trunk[n]


_through: Callable[[Tensor, Pass, Tensor, range], Tensor] = Through.apply
