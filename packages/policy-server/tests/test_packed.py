"""The packed forward, prefix cache, merging and label tries against transformers and PEFT as they are."""

import itertools

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from transformers import AutoModelForCausalLM

from potluck_policy_server.backbones.base import LETTERS, WORDS
from potluck_policy_server.lm.caches import Prefix, PrefixCache
from potluck_policy_server.lm.engine import PackedEngine


def reference(folder, adapter):
    """Transformers with the adapter loaded by PEFT, nothing of ours."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if adapter is None:
        return model
    known = {k: adapter.payload.config[k] for k in ("r", "lora_alpha", "target_modules", "layers_to_transform")}
    wrapped = get_peft_model(model, LoraConfig(**known))
    set_peft_model_state_dict(wrapped, dict(adapter.payload.state))
    return wrapped.eval()


@torch.inference_mode()
def brute_force(model, decision, temperature):
    """Label log-probabilities by one plain forward per trie node."""
    paths, prompt = decision.paths, decision.job.prefix + decision.job.suffix

    def conditional(stem, token):
        children = sorted({path[len(stem)] for path in paths if path[: len(stem)] == stem and len(path) > len(stem)})
        logits = model(input_ids=torch.tensor([prompt + stem])).logits[0, -1].double()[children] / temperature
        return float(logits.log_softmax(-1)[children.index(token)])

    return np.array([sum(conditional(path[:d], path[d]) for d in range(len(path))) for path in paths])


@pytest.mark.parametrize("scheme", [LETTERS, WORDS])
@pytest.mark.parametrize("which", [None, 0, 1, 2])
def test_agrees_with_transformers_and_peft(kit, folder, backbone, adapters, scheme, which):
    adapter = None if which is None else adapters[which]
    model = reference(folder, adapter)
    queries = [kit.query(kit.prompt(seed, 2 + seed % 8), adapter, 0.7, scheme) for seed in range(6)]
    prepared = [backbone.prepare(query) for query in queries]
    assert isinstance(backbone._engine, PackedEngine)
    for decision, scores in zip(prepared, backbone.score(prepared), strict=True):
        np.testing.assert_allclose(scores.logprobs, brute_force(model, decision, 0.7), atol=2e-5)
        assert np.exp(scores.logprobs).sum() == pytest.approx(1, abs=1e-12)


def test_a_menu_of_one_item_is_certain_and_nothing_is_computed_for_it(kit, backbone, adapters, monkeypatch):
    queries = [kit.query(kit.prompt(seed, items), adapters[0]) for seed, items in enumerate((1, 4, 1, 3))]
    prepared, computed, plain = [backbone.prepare(query) for query in queries], [], PackedEngine.hidden

    def counted(self, jobs):
        computed.extend(jobs)
        return plain(self, jobs)

    monkeypatch.setattr(PackedEngine, "hidden", counted)
    scores = backbone.score(prepared)
    assert computed == [prepared[1].job, prepared[3].job]
    assert [len(one.logprobs) for one in scores] == [1, 4, 1, 3]
    assert [one.logprobs[0] for one in (scores[0], scores[2])] == [0, 0]
    assert [np.isnan(one.label_mass) for one in scores] == [True, False, True, False]
    assert {one.adapter_digest for one in scores} == {adapters[0].digest}


def test_words_menus_have_labels_of_several_tokens(kit, backbone):
    decision = backbone.prepare(kit.query(kit.prompt(0, 9), scheme=WORDS))
    assert max(len(path) for path in decision.paths) > 1
    assert len(decision.job.trie.branches) > 1
    # onion1 is the start of onion10: it is ended by the terminator.
    assert not any(a == b[: len(a)] for a, b in itertools.permutations(decision.paths, 2))


def test_mixed_batch_equals_one_by_one(kit, backbone, adapters):
    rules = ["you are a cook .", "you are the other cook , and a longer text of rules ."]
    queries = [
        kit.query(
            kit.prompt(seed, 2 + seed % 8, rules[seed % 2]),
            [None, *adapters][seed % 4],
            0.9,
            [LETTERS, WORDS][seed % 2],
        )
        for seed in range(24)
    ]
    together = kit.scores(backbone, queries)
    for query, scores in zip(queries, together, strict=True):
        alone = kit.scores(backbone, [query])[0]
        np.testing.assert_allclose(scores.logprobs, alone.logprobs, atol=1e-5)
        assert scores.label_mass == pytest.approx(alone.label_mass, abs=1e-5)


def test_order_of_a_batch_does_not_matter(kit, backbone, adapters):
    queries = [kit.query(kit.prompt(seed, 3 + seed % 5), adapters[seed % 2]) for seed in range(9)]
    there = kit.scores(backbone, queries)
    back = kit.scores(backbone, queries[::-1])[::-1]
    for a, b in zip(there, back, strict=True):
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


@pytest.mark.parametrize("other", [{"merge_bytes": 0}, {"engine": "peft"}], ids=["apart", "peft"])
def test_every_way_of_computing_agrees(kit, folder, backbone, adapters, other):
    rival = kit.load(folder, **other)
    queries = [
        kit.query(kit.prompt(s, 2 + s % 8), [None, *adapters][s % 4], 1.0, [LETTERS, WORDS][s // 4 % 2])
        for s in range(16)
    ]
    for a, b in zip(kit.scores(backbone, queries), kit.scores(rival, queries), strict=True):
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=2e-5)
        assert a.label_mass == pytest.approx(b.label_mass, abs=1e-5)


def test_label_mass_is_the_full_softmax_on_first_tokens(kit, folder, backbone):
    model = reference(folder, None)
    decision = backbone.prepare(kit.query(kit.prompt(3, 6), scheme=WORDS))
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([decision.job.prefix + decision.job.suffix])).logits[0, -1]
    expected = float(logits.softmax(-1)[sorted({path[0] for path in decision.paths})].sum())
    assert backbone.score([decision])[0].label_mass == pytest.approx(expected, rel=1e-4)


def test_llama_without_head_norms_agrees(kit, tmp_path, folder):
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    tok = AutoTokenizer.from_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tok), hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        intermediate_size=64, max_position_embeddings=256, attention_bias=True, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    model.save_pretrained(tmp_path)
    tok.save_pretrained(tmp_path)
    backbone = kit.load(tmp_path)
    assert isinstance(backbone._engine, PackedEngine)
    decision = backbone.prepare(kit.query(kit.prompt(1, 7)))
    np.testing.assert_allclose(backbone.score([decision])[0].logprobs, brute_force(model, decision, 1.0), atol=2e-5)


def test_prefix_cache_is_bounded_and_named_by_content():
    cache = PrefixCache(budget=100)
    computed = []

    def compute(name):
        return lambda: computed.append(name) or Prefix(torch.zeros(10), name, (1,))

    cache.get("a", (1,), compute("a"))
    cache.get("b", (1,), compute("b"))
    cache.get("a", (1,), compute("a again"))
    assert computed == ["a", "b"]
    cache.get("c", (1,), compute("c"))
    assert (cache.size, cache.stats.evictions) == (80, 1)
    cache.get("b", (1,), compute("b again"))
    assert computed == ["a", "b", "c", "b again"]
    cache.forget("b")
    assert cache.size == 40
