"""Generate: text from the base or an adapter, through transformers and PEFT."""

from __future__ import annotations

from typing import Any

import torch

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones.base import Adapter, Text
from potluck_policy_server.errors import InvalidRequest, PromptTooLong
from potluck_policy_server.lm.peft_engine import PeftHost
from potluck_policy_server.lm.prompts import chat_prompt

MOST_NEW = 4096


def generate(host: PeftHost, tokenizer: Any, request: pb.GenerateRequest, adapter: Adapter | None, limit: int) -> Text:
    """Runs in the scoring thread; the same request gives the same text."""
    ids = prompt_ids(tokenizer, request, limit)
    new = _run(host, tokenizer, ids, request, adapter)
    stop = _stop_ids(host.model, tokenizer)
    finished = bool(new) and new[-1] in stop
    words = tokenizer.decode(new[:-1] if finished else new, skip_special_tokens=True)
    return Text(words, "stop" if finished else "length", len(ids), len(new))


def prompt_ids(tokenizer: Any, request: pb.GenerateRequest, limit: int) -> list[int]:
    """What a request's model reads; raises InvalidRequest or PromptTooLong for what cannot be answered."""
    if not 1 <= request.max_tokens <= MOST_NEW:
        raise InvalidRequest("max_tokens", f"{request.max_tokens} is not between 1 and {MOST_NEW}")
    if not 0 <= request.temperature <= 100:
        raise InvalidRequest("temperature", f"{request.temperature} is not between 0 and 100")
    text = chat_prompt(tokenizer, request.system, request.prompt)
    ids: list[int] = tokenizer(text, add_special_tokens=not getattr(tokenizer, "chat_template", None)).input_ids
    if limit and len(ids) + request.max_tokens > limit:
        raise PromptTooLong(len(ids) + request.max_tokens, limit)
    if not ids:
        raise InvalidRequest("prompt", "is empty")
    return ids


@torch.inference_mode()
def _run(
    host: PeftHost, tokenizer: Any, ids: list[int], request: pb.GenerateRequest, adapter: Adapter | None
) -> list[int]:
    names = host.names([host.name(adapter)]) if adapter else host.names(["__base__"])
    tokens = torch.tensor([ids], device=host.model.device)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    how: dict[str, Any] = {"do_sample": False}
    if request.temperature > 0:
        how = {"do_sample": True, "temperature": request.temperature, "top_k": 0, "top_p": 1.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed & ((1 << 63) - 1))
        output = host.entry.generate(
            input_ids=tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=request.max_tokens,
            pad_token_id=pad, **how, **names,
        )  # fmt: skip
    host.shrink()
    new: list[int] = output[0, len(ids) :].tolist()
    return new


def _stop_ids(model: Any, tokenizer: Any) -> set[int]:
    ids = model.generation_config.eos_token_id
    found = set(ids) if isinstance(ids, list) else {ids}
    return {i for i in (*found, tokenizer.eos_token_id) if i is not None}
