"""What a user would write with transformers and PEFT alone, and random adapters in PEFT's format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load, save
from transformers import AutoModelForCausalLM, AutoTokenizer

RANK = 16


def settings(layers: Sequence[int] | None) -> dict[str, Any]:
    """Rank 16 on all linear layers, of all decoder layers or of some."""
    return {"r": RANK, "lora_alpha": 2 * RANK, "target_modules": "all-linear", "layers_to_transform": layers}


def random_adapter(
    linears: Mapping[str, tuple[int, int]], layers: Sequence[int] | None, seed: int
) -> tuple[dict[str, Any], bytes]:
    """Config and file of a random adapter, as PEFT saves it."""
    draw = torch.Generator().manual_seed(seed)
    state = {}
    for name, (out, inner) in linears.items():
        if layers is None or any(f".layers.{layer}." in name for layer in layers):
            for half, shape in (("A", (RANK, inner)), ("B", (out, RANK))):
                state[f"base_model.model.{name}.lora_{half}.weight"] = torch.randn(shape, generator=draw) * 0.01
    config = {**settings(layers), "target_modules": sorted({name.rpartition(".")[2] for name in linears})}
    return json.loads(json.dumps({**config, "peft_type": "LORA"})), save(state)


class Rivals:
    """PEFT with all adapters loaded."""

    def __init__(
        self, folder: str, files: Sequence[tuple[dict[str, Any], bytes]], dtype: torch.dtype, layers: list[int] | None
    ) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        config = LoraConfig(**{**settings(layers), "target_modules": files[0][0]["target_modules"]})
        plain = {} if dtype is torch.float32 else {"autocast_adapter_dtype": False}  # else LoRA stays float32
        self.model: Any = get_peft_model(base, config, adapter_name="agent0", **plain)
        for number, (_, data) in enumerate(files):
            if number:
                self.model.add_adapter(f"agent{number}", config, **plain)
            set_peft_model_state_dict(self.model, load(data), adapter_name=f"agent{number}")
        self.model.eval()

    @torch.inference_mode()
    def one_by_one(self, agents: Sequence[int], texts: Sequence[str], lengths: Sequence[int]) -> None:
        """`set_adapter`, then `generate` until the longest label on offer could be complete."""
        for agent, text, length in zip(agents, texts, lengths, strict=True):
            self.model.set_adapter(f"agent{agent}")
            ids = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
            pad = self.tokenizer.pad_token_id
            self.model.generate(**ids, max_new_tokens=length, min_new_tokens=length, do_sample=True, pad_token_id=pad)

    @torch.inference_mode()
    def mixed(self, agents: Sequence[int], texts: Sequence[str], lengths: Sequence[int]) -> None:
        """One left-padded batch with `adapter_names`; the head for the last position only; further label tokens with
        the keys and values of the first pass."""
        names = [f"agent{agent}" for agent in agents]
        batch = self.tokenizer(list(texts), return_tensors="pt", padding=True, add_special_tokens=False)
        ids, mask, past = batch.input_ids, batch.attention_mask, None
        for _ in range(max(lengths)):
            places = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            reply = self.model(
                input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=past, use_cache=True,
                logits_to_keep=1, adapter_names=names,
            )  # fmt: skip
            past = reply.past_key_values
            ids = torch.multinomial(reply.logits[:, -1].float().softmax(-1), 1)
            mask = torch.cat([mask, torch.ones_like(ids)], 1)
