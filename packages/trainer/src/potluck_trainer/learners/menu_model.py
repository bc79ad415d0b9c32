"""Log-probabilities of menus under a causal language model, with gradients.

Small plain decoders take the forward of merged_decoder.py, if it gives what transformers gives; the others this one.
The shared prefix runs once per microbatch, with gradient, and its keys and values are expanded over the rows: the
same gradient as full prompts for a part of the cost. Label logits come from the label rows of the output head alone,
in float32; the restricted softmax is in float64.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import torch
from transformers import DynamicCache

from potluck_trainer.errors import BackboneError
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.merged_decoder import MergedDecoder, is_plain
from potluck_trainer.learners.packing import Packed, pack

log = logging.getLogger(__name__)

SAME = 1e-3
"""Difference of hidden states (of size 1 or so) that is rounding."""

_SCALED_HEADS = ("final_logit_softcapping", "logit_scale", "logits_scaling")


class MenuModel:
    """The forward pass of one causal language model, adapters as they are set."""

    def __init__(self, causal: Any, temperature: float) -> None:
        self._core = causal.get_decoder()
        self._config = causal.config
        head = causal.get_output_embeddings()
        self._head = head.weight
        self._temperature = temperature
        scaled = [name for name in _SCALED_HEADS if getattr(self._config, name, None) not in (None, 1.0)]
        if scaled or getattr(head, "bias", None) is not None:
            raise BackboneError(f"this model's output head has {scaled or 'a bias'}, which the learner does not apply")
        self._read = self._through_transformers
        if is_plain(causal) and self._head.device.type == "cpu":
            merged = MergedDecoder(causal)
            difference = self._difference(merged)
            if difference <= SAME:
                self._read = merged.read
            else:
                log.warning("the merged forward differs by %.1e from transformers' and is not used", difference)

    @torch.no_grad()
    def _difference(self, merged: MergedDecoder) -> float:
        """Largest difference of hidden states on a probe with and without extra tokens."""
        top = min(self._config.vocab_size, 64)
        prefix, suffix = tuple(range(5, 12)), tuple(range(top - 9, top - 1))
        plain = Sample(0, 0, 0.0, 0.0, prefix=prefix, suffix=suffix[2:], labels=((3,), (4,)))
        deep = Sample(0, 0, 0.0, 0.0, prefix=prefix, suffix=suffix, labels=((3, 5), (3, 6, 7), (3, 6, 8), (4,)))
        worst = 0.0
        for samples in ([plain, replace(plain, suffix=suffix)], [plain, deep]):
            batch = pack(samples)
            worst = max(worst, float((merged.read(batch) - self._through_transformers(batch)).abs().max()))
        return worst

    def logp(self, batch: Packed) -> torch.Tensor:
        """logp_NM in float64; −inf beyond the menu."""
        count, menu = batch.offered_NM.shape
        offered = batch.offered_NM.to(self._head.device)
        out = torch.zeros(count * menu, dtype=torch.float64, device=self._head.device)
        if len(batch.branch_row_R):
            logits_RU = self._read(batch).float() @ self._head[batch.tokens_U].float().T
            child_RU = batch.child_RU.to(logits_RU.device)
            logp_RU = (logits_RU.double() / self._temperature).masked_fill(~child_RU, -torch.inf).log_softmax(-1)
            steps = batch.step_label.to(out.device)
            out = out.index_add(0, steps, logp_RU[batch.step_branch, batch.step_token])
        return out.reshape(count, menu).masked_fill(~offered, -torch.inf)

    def _through_transformers(self, batch: Packed) -> torch.Tensor:
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
