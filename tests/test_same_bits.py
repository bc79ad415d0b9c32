"""The learner's log-probabilities are the policy server's, bit for bit, so the first epoch's ratios are exactly 1.

Sampler and learner lay decisions out in their own ways (cached rules and beginnings in waves; shared beginnings in
passes bounded by memory), over the same operations of `potluck.decoder`. The controls: an adapter that differs in one
bit, and the sampler's fast mode.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from potluck.common.v1 import common_pb2
from potluck.decoder.architecture import MERGE_BYTES, PACK_BYTES
from potluck_policy_server.backbones.base import LETTERS, WORDS, Adapter, BackboneOptions, Query, Upload
from potluck_policy_server.backbones.causal_lm import CausalLm
from potluck_policy_server.backbones.tiny import folder
from potluck_policy_server.lm.engine import PackedEngine
from potluck_trainer.config import LearnerConfig
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.lora import LoraTeam

TEMPERATURE = 0.9
TARGETS = ["onion1", "onion2", "pot1", "pot2", "dish1", "counter3", "serve1", "wait"]


def prompt(number: int, rng: np.random.Generator) -> common_pb2.Prompt:
    """A made-up decision; many begin alike."""
    words = [str(word) for word in rng.permutation(TARGETS)[: 2 + number % 6]]
    items = [
        common_pb2.Item(letter=chr(65 + n), word=word, text=f"go to {word}", steps=n) for n, word in enumerate(words)
    ]
    holds = ("none", "onion", "dish")[number % 3]
    observation = f"hold {holds}\npot1 cook {number % 4}\npot2 {rng.integers(0, 9)}"
    return common_pb2.Prompt(rules="you are a cook .", observation=observation, memory=["wait 1"], items=items)


def small_llama(path: Path) -> Path:
    """A Llama too wide to merge adapters at the learner's default would be slow; so the limit is asked for instead."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    tokens = AutoTokenizer.from_pretrained(folder())
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokens), hidden_size=96, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
            intermediate_size=160, tie_word_embeddings=True, initializer_range=0.2,
        )
    )  # fmt: skip
    model.save_pretrained(path)
    tokens.save_pretrained(path)
    return path


@dataclass
class World:
    """A sampler and a learner over one base."""

    sampler: CausalLm
    team: LoraTeam

    def sample(self, count: int = 40) -> tuple[list[Sample], Adapter]:
        """Decisions of agent `a` as the sampler makes them, in waves of eight, with their exact log-probabilities."""
        one = self.team.export("a")
        adapter = self.sampler.read_adapter(Upload(one.digest, "a", json.loads(one.config_json), one.weights))
        rng = np.random.default_rng(2)
        schemes = self.sampler.description.label_schemes
        prepared = [
            self.sampler.prepare(
                Query(prompt(n, rng), adapter, TEMPERATURE, LETTERS if n % 3 == 0 and LETTERS in schemes else WORDS)
            )
            for n in range(count)
        ]
        scores = [one for n in range(0, count, 8) for one in self.sampler.score(prepared[n : n + 8])]
        samples = []
        for n, (decision, score) in enumerate(zip(prepared, scores, strict=True)):
            index = int(rng.integers(len(decision.paths)))
            job = decision.job
            samples.append(
                Sample(
                    n % 5, index, float(score.logprobs[index]), float(rng.normal()),
                    prefix=job.prefix, suffix=job.suffix, labels=decision.paths,
                )
            )  # fmt: skip
        return samples, adapter


def make_world(path: Path, monkeypatch: pytest.MonkeyPatch, merge: bool, dtype: str, **learner: object) -> World:
    if not merge:
        monkeypatch.setattr("potluck.decoder.architecture.Decoder.merges", lambda self, limit=0: False)
    sampler = CausalLm(path, BackboneOptions("base", dtype=dtype))
    assert isinstance(sampler._engine, PackedEngine)
    assert not sampler._engine._options.alone
    settings = {"lr": 1e-2, "rank": 4, "dtype": dtype, "agreement": 9.0} | learner
    team = LoraTeam(path, ("a", "b"), sampler.description.base_digest, LearnerConfig(**settings), TEMPERATURE, 0)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in team._learners["a"]._own.values():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
    return World(sampler, team)


def gap(world: World, samples: Sequence[Sample]) -> float:
    return world.team.update("a", samples, 0).agreement


@pytest.mark.parametrize(
    ("merge", "dtype", "learner"),
    [
        (True, "float32", {}),
        (True, "float32", {"top_layers": 1, "pass_memory": 1}),
        (False, "float32", {"targets": "q_proj,down_proj", "microbatch": 7}),
        (False, "float32", {"top_layers": 2}),
        (False, "bfloat16", {}),
    ],
    ids=["merged", "merged-top", "apart-some", "apart-top", "bfloat16"],
)
@pytest.mark.parametrize("family", ["tiny", "llama"])
def test_the_first_ratio_is_exactly_one(family, merge, dtype, learner, tmp_path, monkeypatch):
    path = folder() if family == "tiny" else small_llama(tmp_path)
    world = make_world(path, monkeypatch, merge, dtype, **learner)
    samples, _ = world.sample()
    assert world.team._learners["a"].menus.reader
    assert gap(world, samples) == 0.0
    moved, _ = world.sample()
    assert [one.logprob for one in moved] != [one.logprob for one in samples]
    assert gap(world, moved) == 0.0


def test_one_bit_of_an_adapter_is_seen(monkeypatch):
    world = make_world(folder(), monkeypatch, False, "float32")
    samples, _ = world.sample()
    with torch.no_grad():
        largest = max(world.team._learners["a"]._own.values(), key=lambda p: float(p.abs().max()))
        place = largest.abs().argmax()
        largest.view(-1)[place] = torch.nextafter(largest.view(-1)[place], torch.tensor(9.0))
    assert 0 < gap(world, samples) < 1e-4


def test_the_fast_mode_is_close_and_not_equal(monkeypatch):
    world = make_world(folder(), monkeypatch, True, "float32")
    world.sampler = CausalLm(folder(), BackboneOptions("base", deterministic=False))
    samples, _ = world.sample()
    assert 0 < gap(world, samples) < 1e-4


def test_both_sides_lay_weights_out_by_the_same_limits():
    options = BackboneOptions("base")
    assert (options.merge_bytes, options.pack_bytes) == (MERGE_BYTES, PACK_BYTES)


def test_a_reply_that_names_another_log_probability_is_a_gap(monkeypatch):
    world = make_world(folder(), monkeypatch, True, "float32")
    samples, _ = world.sample(6)
    other = [replace(one, logprob=float(np.nextafter(one.logprob, 0))) for one in samples]
    assert 0 < gap(world, other) < 1e-12
