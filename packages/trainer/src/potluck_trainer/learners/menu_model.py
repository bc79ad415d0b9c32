"""Log-probabilities of menus under a causal language model, with gradients.

Plain decoders take the packed forward, if it gives what transformers gives; the others transformers' and PEFT's own,
where the shared prefix runs once per microbatch, with gradient, and its keys and values are expanded over the rows.
Both have the gradient of full prompts. Label logits come from the label rows of the output head alone, in float32; the
restricted softmax is in float64.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from transformers import DynamicCache

from potluck_trainer.errors import BackboneError
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.packed_decoder import PackedDecoder, Pair, Pairs
from potluck_trainer.learners.packed_round import PackedRound, Reader
from potluck_trainer.learners.packing import Packed, microbatches, pack

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
        self._head = head.weight
        self._temperature = temperature
        scaled = [name for name in _SCALED_HEADS if getattr(self._config, name, None) not in (None, 1.0)]
        if scaled or getattr(head, "bias", None) is not None:
            raise BackboneError(f"this model's output head has {scaled or 'a bias'}, which the learner does not apply")
        self._reader: Reader | None = None
        if packed is not None:
            reader = Reader(packed, lora_pairs(self._core))
            difference = self._difference(reader)
            if difference <= SAME.get(self._head.dtype, 0.0):
                self._reader = reader
            else:
                log.warning("the packed forward differs by %.1e from transformers' and is not used", difference)

    @property
    def packs(self) -> bool:
        """Whether the packed forward is in use."""
        return self._reader is not None

    def kept_bytes(self) -> int:
        """About what a token's forward keeps for its backward."""
        if self._reader is not None:
            return self._reader.packed.decoder.kept_bytes(self._reader.trained)
        one = self._config.get_text_config()
        inner = getattr(one, "intermediate_size", None) or 4 * one.hidden_size
        return int(one.num_hidden_layers * self._head.element_size() * (16 * one.hidden_size + 6 * inner))

    def open(self, samples: Sequence[Sample], keep: bool) -> MenuRound:
        """A round's decisions; `keep` where they are read more than once."""
        return MenuRound(self, samples, PackedRound(self._reader, keep) if self._reader is not None else None)

    def logp(self, hidden_RD: torch.Tensor, batch: Packed) -> torch.Tensor:
        """logp_NM in float64; −inf beyond the menu."""
        count, menu = batch.offered_NM.shape
        offered = batch.offered_NM.to(self._head.device)
        out = torch.zeros(count * menu, dtype=torch.float64, device=self._head.device)
        logits_RU = hidden_RD.float() @ self._head[batch.tokens_U].float().T
        child_RU = batch.child_RU.to(logits_RU.device)
        logp_RU = (logits_RU.double() / self._temperature).masked_fill(~child_RU, -torch.inf).log_softmax(-1)
        steps = batch.step_label.to(out.device)
        out = out.index_add(0, steps, logp_RU[batch.step_branch, batch.step_token])
        return out.reshape(count, menu).masked_fill(~offered, -torch.inf)

    def through_transformers(self, batch: Packed, adapted: bool) -> torch.Tensor:
        """Final states_RD at the branches, by transformers and PEFT as they are."""
        with contextlib.nullcontext() if adapted else self._model.disable_adapter():
            return self._through(batch)

    @torch.no_grad()
    def _difference(self, reader: Reader) -> float:
        """Of hidden states on probes with and without extra tokens, relative to their size."""
        top = min(self._config.vocab_size, 64)
        prefix, suffix = tuple(range(5, 12)), tuple(range(top - 9, top - 1))
        plain = Sample(0, 0, 0.0, 0.0, prefix=prefix, suffix=suffix[2:], labels=((3,), (4,)))
        deep = Sample(0, 0, 0.0, 0.0, prefix=prefix, suffix=suffix, labels=((3, 5), (3, 6, 7), (3, 6, 8), (4,)))
        worst = 0.0
        for samples in ([plain, replace(plain, suffix=suffix)], [plain, deep]):
            batch = pack(samples)
            ours = PackedRound(reader, keep=False).read(range(len(samples)), prefix, batch, adapted=True).float()
            theirs = self._through(batch).float()
            worst = max(worst, float((ours - theirs).norm() / theirs.norm()))
        return worst

    def _through(self, batch: Packed) -> torch.Tensor:
        device = self._head.device
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
        hidden: torch.Tensor = out.last_hidden_state[batch.branch_row_R, batch.branch_column_R]
        return hidden

    def _mask(self, batch: Packed, prefix_length: int) -> torch.Tensor | None:
        if batch.visible_NLL is None:
            return None
        count, width, _ = batch.visible_NLL.shape
        seen = torch.cat([torch.ones(count, width, prefix_length, dtype=torch.bool), batch.visible_NLL], dim=2)
        mask = torch.zeros(seen.shape, dtype=self._head.dtype).masked_fill(~seen, torch.finfo(self._head.dtype).min)
        return mask[:, None].to(self._head.device)


class MenuRound:
    """The decisions of one update, read by number."""

    def __init__(self, model: MenuModel, samples: Sequence[Sample], packed: PackedRound | None) -> None:
        self._model = model
        self._samples = samples
        self._packed = packed

    def microbatches(self, rows: Sequence[int], size: int, memory: int) -> list[list[int]]:
        """Passes of at most `size` decisions and about `memory` bytes; each is of one prefix."""
        return microbatches(self._samples, rows, size, max(1, memory // self._model.kept_bytes()))

    def logp(self, rows: Sequence[int], adapted: bool = True) -> torch.Tensor:
        """logp_NM of samples behind one prefix, in float64; −inf beyond the menu. A menu of one item is certain and
        has no gradient: it is not read."""
        open_menus = [place for place, n in enumerate(rows) if self._samples[n].size > 1]
        if len(open_menus) == len(rows):
            return self._read(rows, adapted)
        menu = max(self._samples[n].size for n in rows)
        logp_NM = torch.full((len(rows), menu), -torch.inf, dtype=torch.float64)
        logp_NM[:, 0] = 0.0
        if not open_menus:
            return logp_NM
        read = self._read([rows[place] for place in open_menus], adapted)
        return logp_NM.to(read.device).index_copy(0, torch.tensor(open_menus, device=read.device), read)

    def _read(self, rows: Sequence[int], adapted: bool) -> torch.Tensor:
        batch = pack([self._samples[n] for n in rows])
        if self._packed is None:
            hidden = self._model.through_transformers(batch, adapted)
        else:
            hidden = self._packed.read(rows, self._samples[rows[0]].prefix, batch, adapted)
        return self._model.logp(hidden, batch)

    def flush(self) -> None:
        """Ends a minibatch: what its passes owe to their prefixes reaches the adapter."""
        if self._packed is not None:
            self._packed.flush()


def lora_pairs(core: Any) -> Pairs:
    """The active adapter's tensors by module name below the decoder."""
    return {
        name: _pair(one, active)
        for name, one in core.named_modules()
        if isinstance(one, LoraLayer)
        for active in one.active_adapters
        if active in one.lora_A
    }


def _pair(one: Any, active: str) -> Pair:
    return Pair(one.lora_A[active].weight, one.lora_B[active].weight, float(one.scaling[active]))
