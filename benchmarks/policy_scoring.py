"""Menu decisions per second: the policy server's scoring beside the loop that one would write first with PEFT.

    python benchmarks/policy_scoring.py
    python benchmarks/policy_scoring.py --backbone smollm2-135m --batches 1 7

Both run in one process, on the same prompts, adapters (rank 16, all linear layers), type and thread. The naive loop
asks one agent at a time: `set_adapter`, then `generate(max_new_tokens=1)` on the whole prompt. Ours is the backbone
that the server serves, rendering and tokenizing included. Rates are per CPU second, which on one thread of an idle
machine is wall time. The measured matrix product rate on the base's own shapes gives the limit for the floating-point
operations that must be done (suffix only, LoRA not counted).
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save
from transformers import AutoModelForCausalLM, AutoTokenizer

from potluck.common.v1 import common_pb2
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions, Query, Upload
from potluck_policy_server.folder import base_digest

RULES = "\n".join(
    [
        "you are seat 0 of 2 in a kitchen .",
        "goal : deliver soups . a soup needs 3 onion , cooks 20 steps and needs a dish .",
        "the mate works beside you . pass things over the counter when a wall is between you .",
    ]
)
WORDS = ["onion1", "onion2", "pot1", "pot2", "dish1", "counter1", "counter2", "serve1", "drop1"]


def prompt(seed: int) -> common_pb2.Prompt:
    """A prompt of the size that Overcooked gives: about fifty tokens after the rules."""
    r = random.Random(seed)
    words = [*r.sample(WORDS, 5), "wait"]
    items = [
        common_pb2.Item(letter=chr(65 + i), word=word, option=word, text=f"go to {word}", steps=r.randint(0, 12))
        for i, word in enumerate(words)
    ]
    lines = [f"hold {r.choice(['none', 'onion', 'dish', 'soup'])}", f"pot1 cook {r.randint(0, 20)}", "pot2 none"]
    lines += [f"shared onion {r.randint(0, 3)} dish {r.randint(0, 2)}", f"mate hold {r.choice(['none', 'onion'])}"]
    memory = [f"{r.choice(WORDS)} success {r.randint(1, 9)}" for _ in range(2)]
    return common_pb2.Prompt(rules=RULES, observation="\n".join(lines), memory=memory, items=items)


def random_adapter(folder: str, seed: int, dtype: torch.dtype) -> tuple[dict, bytes]:
    """Rank 16 on all linear layers, as PEFT saves it."""
    torch.manual_seed(seed)
    config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(folder, dtype=dtype), config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn(p.shape) * 0.01)
    settings = json.loads(json.dumps(config.to_dict(), default=list))
    return settings, save({key: value.contiguous() for key, value in get_peft_model_state_dict(model).items()})


class Naive:
    """PEFT's active adapter and generate, one agent at a time."""

    def __init__(self, folder: str, adapters: list[tuple[dict, bytes]], dtype: torch.dtype) -> None:
        from peft import set_peft_model_state_dict
        from safetensors.torch import load

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
        self.model = get_peft_model(base, config, adapter_name="agent0")
        for number, (_, data) in enumerate(adapters):
            if number:
                self.model.add_adapter(f"agent{number}", config)
            set_peft_model_state_dict(self.model, load(data), adapter_name=f"agent{number}")
        self.model.eval()

    @torch.inference_mode()
    def decide(self, agents: list[int], texts: list[str]) -> None:
        for agent, text in zip(agents, texts, strict=True):
            self.model.set_adapter(f"agent{agent}")
            ids = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
            pad = self.tokenizer.pad_token_id or 0
            self.model.generate(
                input_ids=ids.input_ids,
                attention_mask=ids.attention_mask,
                max_new_tokens=1,
                do_sample=True,
                pad_token_id=pad,
            )


def rate(work: Callable[[int], None], size: int, seconds: float) -> float:
    """Work per CPU second: the best of three stretches, so that what else the machine does counts little."""
    work(0)
    best, calls = 0.0, itertools.count(1)
    for _ in range(3):
        start, done = time.process_time(), 0
        while not done or time.process_time() - start < seconds / 3:
            work(next(calls))
            done += size
        best = max(best, done / (time.process_time() - start))
    return best


def product_rate(shapes: list[tuple[int, int]], rows: int, dtype: torch.dtype) -> float:
    """Floating-point operations per second of the base's own matrix products."""
    pairs = [(torch.randn(rows, inner, dtype=dtype), torch.randn(out, inner, dtype=dtype)) for out, inner in shapes]
    work = sum(2 * rows * out * inner for out, inner in shapes)

    def run(_: int) -> None:
        for x, w in pairs:
            torch.nn.functional.linear(x, w)

    return rate(run, 1, 2.0) * work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="tiny")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 7, 12, 16])
    parser.add_argument("--agents", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="per measurement")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    dtype = getattr(torch, args.dtype)
    ours = registry.load(BackboneOptions(args.backbone, threads=1, dtype=args.dtype))
    folder = str(ours.files()[0].parent)
    files = [random_adapter(folder, seed, dtype) for seed in range(args.agents)]
    base = base_digest(ours.files()[0].parent)
    uploads = [Upload(hashlib.sha256(data).hexdigest(), "agent", config, data) for config, data in files]
    adapters = [ours.read_adapter(upload) for upload in uploads]
    naive = Naive(folder, files, dtype)

    def query(seed: int, agent: int) -> Query:
        return Query(prompt(seed), adapters[agent], 1.0, ours.description.label_scheme)

    sample = [ours.prepare(query(seed, 0)) for seed in range(32)]
    suffix = sum(len(one.job.suffix) + len(one.job.trie.tokens) for one in sample) / len(sample)
    shapes = list(ours._linears.values())
    flops = sum(2 * out * inner for out, inner in shapes) * suffix
    peak = product_rate(shapes, round(12 * suffix), dtype)
    print(f"{args.backbone} {args.dtype}, {ours.description.parameters / 1e6:.2f} M parameters, base {base[:12]}")
    print(f"prompt: {len(sample[0].job.prefix)} tokens of rules + {suffix:.0f} on average; {args.agents} adapters")
    print(f"matrix products: {peak / 1e9:.1f} GFLOP/s -> at most {peak / flops:.4g} decisions/s\n")
    print(f"{'batch':>5} {'naive/s':>9} {'ours/s':>9} {'ratio':>6} {'of limit':>9}")
    for size in args.batches:
        agents = [i % args.agents for i in range(size)]

        def run_ours(call: int, size: int = size, agents: list[int] = agents) -> None:
            ours.score([ours.prepare(query(call * size + i, agent)) for i, agent in enumerate(agents)])

        def run_naive(call: int, size: int = size, agents: list[int] = agents) -> None:
            naive.decide(agents, [ours.text(prompt(call * size + i)) for i in range(size)])

        fast, slow = rate(run_ours, size, args.seconds), rate(run_naive, size, args.seconds)
        print(f"{size:>5} {slow:>9.1f} {fast:>9.1f} {fast / slow:>6.1f} {fast * flops / peak:>8.0%}")


if __name__ == "__main__":
    main()
