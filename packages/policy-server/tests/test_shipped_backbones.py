"""The backbones that ship: `tiny` reads its own prompts, SmolLM2 loads and answers."""

import numpy as np
import pytest

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import LETTERS, WORDS, BackboneOptions
from potluck_policy_server.backbones.gguf_files import cache_folder
from potluck_policy_server.errors import LabelsUnsupported
from potluck_policy_server.lm.engine import PackedEngine

OVERCOOKED = ["onion1", "onion2", "tomato1", "pot1", "pot2", "dish1", "counter1", "wait"]


@pytest.fixture(scope="module")
def tiny():
    return registry.load(BackboneOptions("tiny"))


def test_tiny_names_every_option_with_one_token(kit, tiny):
    assert tiny.description.label_scheme == WORDS
    prompt = kit.prompt(0, 5)
    for item, word in zip(prompt.items, [*OVERCOOKED[:4], "wait"], strict=True):
        item.word = word
    decision = tiny.prepare(kit.query(prompt))
    assert {len(path) for path in decision.paths} == {1}
    assert len({path[0] for path in decision.paths}) == 5


def test_tiny_spells_words_that_it_does_not_know(kit, tiny):
    """By bytes: several tokens, still an exact policy, also where one word is the start of another."""
    prompt = kit.prompt(0, 4)
    for item, word in zip(prompt.items, ["zyzzyva1", "zyzzyva10", "onion1", "wait"], strict=True):
        item.word = word
    decision = tiny.prepare(kit.query(prompt))
    assert [len(path) > 1 for path in decision.paths] == [True, True, False, False]
    assert np.exp(tiny.score([decision])[0].logprobs).sum() == pytest.approx(1, abs=1e-12)
    prompt.items[1].word = "zyzzyva1"
    with pytest.raises(LabelsUnsupported, match="read the same"):
        tiny.prepare(kit.query(prompt))


def test_tiny_takes_the_packed_path_and_batches_exactly(kit, tiny):
    assert isinstance(tiny._engine, PackedEngine)
    queries = [kit.query(kit.prompt(seed, 2 + seed % 7)) for seed in range(10)]
    for query, scores in zip(queries, kit.scores(tiny, queries), strict=True):
        np.testing.assert_allclose(scores.logprobs, kit.scores(tiny, [query])[0].logprobs, atol=1e-5)


def test_tiny_is_fast_enough_to_train_with(kit, tiny):
    """Far below the benchmark's figure, so that only a lost fast path fails it."""
    import time

    queries = [kit.query(kit.prompt(seed, 6)) for seed in range(12)]
    kit.scores(tiny, queries)
    start = time.process_time()
    for _ in range(5):
        kit.scores(tiny, queries)
    assert 60 / (time.process_time() - start) > 80


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("POTLUCK_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("POTLUCK_CACHE")
    assert cache_folder().name == "potluck"


@pytest.mark.slow
async def test_smollm2_smoke(kit):
    """Loads (converted once), reads both schemes, eight decisions with batched = single, and one text."""
    backbone = registry.load(BackboneOptions("smollm2-135m"))
    assert backbone.description.label_scheme == WORDS
    assert 134_000_000 < backbone.description.parameters < 135_000_000
    assert isinstance(backbone._engine, PackedEngine)
    queries = [kit.query(kit.prompt(s, 3 + s % 4), scheme=[LETTERS, WORDS][s % 2]) for s in range(8)]
    scores = kit.scores(backbone, queries)
    for query, ours in zip(queries[:3], scores, strict=False):
        np.testing.assert_allclose(ours.logprobs, kit.scores(backbone, [query])[0].logprobs, atol=1e-4)
    request = pb.GenerateRequest(prompt="What is the capital of France?", max_tokens=12)
    assert "Paris" in backbone.generate(request, None).text
