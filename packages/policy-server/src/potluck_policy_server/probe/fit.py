"""A short supervised LoRA fit on the probe's questions, on a second copy of the base.

Loss: cross-entropy of the right label's tokens after the prompt, over the whole vocabulary. The result goes back into
the served backbone as an upload, the way a learner's adapter does.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from potluck_policy_server.adapters import adapter_digest
from potluck_policy_server.backbones.base import Adapter, Backbone, Query, Scheme, Upload
from potluck_policy_server.lm.loading import load_model
from potluck_policy_server.probe.questions import fit_batch

BATCH = 8
RANK = 16
_CLIP = 1.0

log = logging.getLogger(__name__)


def fit(backbone: Backbone, folder: Path, scheme: Scheme, steps: int, rate: float, seed: int) -> Adapter:
    """An adapter after `steps` batches of 8 questions, read by the backbone."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    model: Any = get_peft_model(
        load_model(folder, backbone.description.name, torch.float32),
        LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear"),
    )
    model.train()
    weights = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
    for step in range(steps):
        loss = _loss(model, backbone, scheme, seed, step)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, _CLIP)
        optimiser.step()
        if step % 10 == 9:
            log.info("fit step %d of %d: loss %.3f", step + 1, steps, float(loss.detach()))
    return backbone.read_adapter(_upload(model, backbone.description.base_digest))


def _loss(model: Any, backbone: Backbone, scheme: Scheme, seed: int, step: int) -> Any:
    rows, targets = [], []
    for question in fit_batch(seed, step, BATCH):
        decision: Any = backbone.prepare(Query(question.prompt, None, 1.0, scheme))
        path = decision.paths[question.right]
        context = decision.job.prefix + decision.job.suffix
        rows.append(context + path)
        targets.append([-100] * (len(context) - 1) + [*path, -100])
    width = max(map(len, rows))
    ids = torch.tensor([list(row) + [0] * (width - len(row)) for row in rows])
    wanted = torch.tensor([row + [-100] * (width - len(row)) for row in targets])
    places = (wanted != -100).any(0).nonzero().flatten()
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=places).logits
    return functional.cross_entropy(logits.flatten(0, 1).float(), wanted[:, places].flatten(), ignore_index=-100)


def _upload(model: Any, base: str) -> Upload:
    from peft import get_peft_model_state_dict
    from safetensors.torch import save

    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "target_modules": sorted(model.peft_config["default"].target_modules),
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    data = save({name: value.contiguous() for name, value in get_peft_model_state_dict(model).items()})
    digest = adapter_digest(base, config, hashlib.sha256(data).hexdigest())
    return Upload(digest, "probe", config, data)
