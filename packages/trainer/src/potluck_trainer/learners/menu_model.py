"""Log-probabilities of menus under a causal language model, with gradients.

Plain decoders take the packed forward that the policy server scores with, if it gives what transformers gives; the
others transformers' and PEFT's own, where the shared prefix runs once per microbatch, with gradient, and its keys and
values are expanded over the rows. Both have the gradient of full prompts. Label logits come from the label rows of the
output head alone, in float32; the restricted softmax is in float64.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from peft.tuners.lora import LoraLayer
from transformers import DynamicCache

from potluck_trainer.errors import BackboneError
from potluck_trainer.learners import policies
from potluck_trainer.learners.attached import Own
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.packed_round import Entry, PackedRound, Reader
from potluck_trainer.learners.packing import Packed, microbatches, pack
from potluck_trainer.learners.passes import PackedDecoder

log = logging.getLogger(__name__)

SAME = {torch.float32: 1e-4, torch.bfloat16: 0.05}
"""Difference of hidden states, relative to their size, that is rounding."""

_SCALED_HEADS = ("final_logit_softcapping", "logit_scale", "logits_scaling")


class MenuModel:
    """The forward pass of one agent's model: a PEFT model over the shared base."""

    def __init__(self, model: Any, temperature: float, packed: PackedDecoder | None) -> None:
        causal = model.get_base_model()
        self._model = model
        self._core = causal.get_decoder()
        self._config = causal.config
        head = causal.get_output_embeddings()
        self.head = head.weight
        self.temperature = temperature
        scaled = [name for name in _SCALED_HEADS if getattr(self._config, name, None) not in (None, 1.0)]
        if scaled or getattr(head, "bias", None) is not None:
            raise BackboneError(f"this model's output head has {scaled or 'a bias'}, which the learner does not apply")
        self.reader: Reader | None = None
        """The packed forward, where it is in use."""
        if packed is not None:
            self.reader = Reader(packed, lora_pairs(causal))
            difference = self._difference()
            if not difference <= SAME.get(self.head.dtype, 0.0):
                log.warning("the packed forward differs by %.1e from transformers' and is not used", difference)
                self.reader = None

    def kept_bytes(self) -> int:
        """About what a token's forward keeps for its backward."""
        if self.reader is not None:
            return self.reader.packed.kept_bytes(self.reader.trained)
        one = self._config.get_text_config()
        inner = getattr(one, "intermediate_size", None) or 4 * one.hidden_size
        return int(one.num_hidden_layers * self.head.element_size() * (16 * one.hidden_size + 6 * inner))

    def logp(self, hidden_RD: torch.Tensor | None, samples: Sequence[Sample]) -> torch.Tensor:
        """logp_NM in float64 on the CPU; -inf beyond the menu."""
        asked = policies.asked([policies.trie_of(one.labels) for one in samples], self.head.device)
        return policies.logp(hidden_RD, self.head, asked, self.temperature)

    def through_transformers(self, batch: Packed, adapted: bool) -> torch.Tensor:
        """Final states_RD at the branches, by transformers and PEFT as they are."""
        with contextlib.nullcontext() if adapted else self._model.disable_adapter():
            return self._through(batch)

    @torch.no_grad()
    def _difference(self) -> float:
        """Of the packed forward's hidden states from transformers', on probes with and without extra tokens, relative
        to their size."""
        top = min(self._config.vocab_size, 64)
        prefix, suffix = tuple(range(5, 12)), tuple(range(top - 9, top - 1))
        plain = Sample(0, 0, 0.0, 0.0, prefix=prefix, suffix=suffix[2:], labels=((3,), (4,)))
        deep = Sample(0, 0, 0.0, 0.0, prefix=prefix, suffix=suffix, labels=((3, 5), (3, 6, 7), (3, 6, 8), (4,)))
        worst = 0.0
        for samples in ([plain, replace(plain, suffix=suffix)], [plain, deep]):
            rows = range(len(samples))
            ours = packed_round([self], [Entry(0, sample) for sample in samples]).states(rows).float()
            theirs = self._through(pack(samples)).float()
            worst = max(worst, float((ours - theirs).norm() / theirs.norm()))
        return worst

    def _through(self, batch: Packed) -> torch.Tensor:
        device = self.head.device
        count = len(batch.ids_NL)
        prefix_length = batch.prefix.shape[1]
        cache = DynamicCache(config=self._config)
        if prefix_length:
            self._core(input_ids=batch.prefix.to(device), past_key_values=cache, use_cache=True)
            if count > 1:
                cache.batch_repeat_interleave(count)
        out = self._core(
            input_ids=batch.ids_NL.to(device),
            position_ids=batch.positions_NL.to(device),
            attention_mask=self._mask(batch, prefix_length),
            past_key_values=cache,
            use_cache=True,
        )
        hidden: torch.Tensor = out.last_hidden_state[batch.read_row_R, batch.read_column_R]
        return hidden

    def _mask(self, batch: Packed, prefix_length: int) -> torch.Tensor | None:
        if batch.visible_NLL is None:
            return None
        count, width, _ = batch.visible_NLL.shape
        seen = torch.cat([torch.ones(count, width, prefix_length, dtype=torch.bool), batch.visible_NLL], dim=2)
        mask = torch.zeros(seen.shape, dtype=self.head.dtype).masked_fill(~seen, torch.finfo(self.head.dtype).min)
        return mask[:, None].to(self.head.device)


class MenuRound(Protocol):
    """The decisions of one update, read by number."""

    def microbatches(self, rows: Sequence[int], size: int, memory: int) -> list[list[int]]:
        """Passes of at most `size` decisions of each agent, that keep about `memory` bytes."""
        ...

    def logp(self, rows: Sequence[int], adapted: bool = True) -> torch.Tensor:
        """logp_NM of the decisions of a pass, in float64 on the CPU; -inf beyond the menu."""
        ...

    def flush(self) -> None:
        """Ends a minibatch: what its passes owe to their prefixes reaches the adapter."""
        ...


class PlainRound:
    """Through transformers and PEFT; each pass is of one prefix."""

    def __init__(self, model: MenuModel, samples: Sequence[Sample]) -> None:
        self._model = model
        self._samples = samples

    def microbatches(self, rows: Sequence[int], size: int, memory: int) -> list[list[int]]:
        return microbatches(self._samples, rows, size, max(1, memory // self._model.kept_bytes()))

    def logp(self, rows: Sequence[int], adapted: bool = True) -> torch.Tensor:
        open_rows = [n for n in rows if self._samples[n].size > 1]
        hidden: torch.Tensor | None = None
        if open_rows:
            hidden = self._model.through_transformers(pack([self._samples[n] for n in open_rows]), adapted)
        return self._model.logp(hidden, [self._samples[n] for n in rows])

    def flush(self) -> None:
        pass


def open_round(models: Sequence[MenuModel], entries: Sequence[Entry]) -> MenuRound:
    """A round's decisions of one agent, or of several whose models have readers all."""
    if models[0].reader is None:
        return PlainRound(models[0], [entry.sample for entry in entries])
    return packed_round(models, entries)


def packed_round(models: Sequence[MenuModel], entries: Sequence[Entry]) -> PackedRound:
    """Decisions of several agents over one base, whose models have readers all."""
    readers = [model.reader for model in models if model.reader is not None]
    assert len(readers) == len(models)
    return PackedRound(readers, entries, models[0].head, models[0].temperature)


def lora_pairs(causal: Any) -> dict[str, Own]:
    """The active adapter's tensors by module name below the causal model."""
    return {
        name: _own(one, active)
        for name, one in causal.named_modules()
        if isinstance(one, LoraLayer)
        for active in one.active_adapters
        if active in one.lora_A
    }


def _own(one: Any, active: str) -> Own:
    return Own(one.lora_A[active].weight, one.lora_B[active].weight, float(one.scaling[active]))
