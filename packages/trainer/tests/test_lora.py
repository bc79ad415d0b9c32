"""The LoRA learner on a random model of 20 thousand parameters: exactness, isolation, bit-for-bit continuation."""

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from transformers import Qwen3Config, Qwen3ForCausalLM  # noqa: E402

from potluck_trainer.config import LearnerConfig  # noqa: E402
from potluck_trainer.errors import AgreementError, BackboneError, CheckpointError  # noqa: E402
from potluck_trainer.learners import policies  # noqa: E402
from potluck_trainer.learners.base import Sample  # noqa: E402
from potluck_trainer.learners.lora import LoraTeam  # noqa: E402
from potluck_trainer.learners.packing import microbatches, pack  # noqa: E402

BASE = "b" * 64
TEMPERATURE = 0.9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            head_dim=16, intermediate_size=48, max_position_embeddings=128, tie_word_embeddings=True,
            initializer_range=0.2,
        )
    )  # fmt: skip
    path = tmp_path_factory.mktemp("base")
    model.save_pretrained(path)
    return path


@pytest.fixture
def make_team(folder):
    def make(seed=0, **changes):
        settings = {"lr": 1e-2, "beta": 0.05, "rank": 4, "microbatch": 8, "epochs": 1} | changes
        return LoraTeam(folder, ("a", "b"), BASE, LearnerConfig(**settings), TEMPERATURE, seed)

    return make


def sampled(team, agent, samples):
    logp = team.logp(agent, samples)
    return [replace(s, logprob=float(logp[n, s.index])) for n, s in enumerate(samples)]


def by_hand(folder, sample):
    """Label probabilities token by token with the bare base, as constrained sampling would draw them."""
    model = Qwen3ForCausalLM.from_pretrained(folder).eval()
    out = []
    for path in sample.labels:
        logp = 0.0
        for depth, token in enumerate(path):
            options = sorted({p[depth] for p in sample.labels if p[:depth] == path[:depth] and len(p) > depth})
            ids = torch.tensor([[*sample.prefix, *sample.suffix, *path[:depth]]])
            with torch.no_grad():
                logits = model(ids).logits[0, -1].double()[options] / TEMPERATURE
            logp += float(logits.log_softmax(-1)[options.index(token)])
        out.append(logp)
    return out


def test_labels_of_several_tokens_are_exact(folder, make_team):
    deep = Sample(
        0, 0, 0.0, 0.0, prefix=(1, 2, 3), suffix=(5, 9, 7, 6),
        labels=((11,), (13, 14, 15), (13, 14, 16), (13, 17, 18), (12, 19)),
    )  # fmt: skip
    plain = Sample(0, 0, 0.0, 0.0, prefix=(1, 2, 3), suffix=(8, 6), labels=((20,), (21,), (22,)))
    single = Sample(0, 0, 0.0, 0.0, prefix=(1, 2, 3), suffix=(8, 6), labels=((20, 21),))
    team = make_team()
    found = team.logp("a", [deep, plain, single])
    assert found[0] == pytest.approx(by_hand(folder, deep), abs=1e-5)
    assert found[1, :3] == pytest.approx(by_hand(folder, plain), abs=1e-5)
    assert found[1, 3:].tolist() == [-math.inf] * 2
    assert found[2, 0] == 0.0
    assert np.exp(found).sum(axis=1) == pytest.approx([1, 1, 1])
    for n, sample in enumerate((deep, plain, single)):
        assert team.logp("a", [sample])[0, : sample.size] == pytest.approx(found[n, : sample.size], abs=1e-5)


def test_the_shared_prefix_has_the_full_prompts_gradient(make_team, lantern_samples):
    """The same update with the prefix split off and with it inside every suffix."""
    split = make_team()
    samples = sampled(split, "a", lantern_samples(12))
    split.update("a", samples, 0)
    joined = make_team()
    whole = [replace(s, prefix=(), suffix=s.prefix + s.suffix) for s in samples]
    joined.update("a", whole, 0)
    one, other = flat(split, "a"), flat(joined, "a")
    assert float(torch.nn.functional.cosine_similarity(one - start(make_team), other - start(make_team), 0)) > 0.999


def flat(team, agent):
    return torch.cat([p.detach().flatten() for p in team._learners[agent]._own.values()])


def start(make_team):
    return flat(make_team(), "a")


def test_microbatches_do_not_change_the_update(make_team, lantern_samples):
    found = []
    for size in (3, 32):
        team = make_team(microbatch=size, epochs=2)
        found.append((team.update("a", sampled(team, "a", lantern_samples(20)), 0), flat(team, "a")))
    assert found[0][0].last.loss == pytest.approx(found[1][0].last.loss, abs=1e-4)
    assert found[0][0].grad_norm == pytest.approx(found[1][0].grad_norm, rel=1e-3)


def test_only_the_learning_agent_moves(make_team, lantern_samples):
    team = make_team()
    base = {name: p.detach().clone() for name, p in team._learners["a"]._model.named_parameters() if "lora" not in name}
    team.update("b", sampled(team, "b", lantern_samples(8, 1)), 0)
    adapter, optimiser = team.export("b").weights, team.optimiser_state("b")
    before = team.export("a").weights
    team.update("a", sampled(team, "a", lantern_samples(8, 2)), 0)
    assert team.export("b").weights == adapter
    assert team.optimiser_state("b") == optimiser
    assert team.export("a").weights != before
    for name, p in team._learners["a"]._model.named_parameters():
        if name in base:
            assert torch.equal(p, base[name])
            assert not p.requires_grad


def test_agents_share_the_base_in_memory(make_team):
    team = make_team()
    one, other = (
        {name: p for name, p in team._learners[agent]._model.named_parameters() if "lora_" not in name}
        for agent in team.agents
    )
    assert all(one[name].data_ptr() == other[name].data_ptr() for name in one)


def test_initial_adapters_are_the_base_and_depend_on_agent_and_seed_alone(make_team, lantern_samples):
    team = make_team(seed=3)
    report = team.update("a", sampled(team, "a", lantern_samples(6)), 0)
    assert report.first.kl == pytest.approx(0.0, abs=1e-10)
    assert report.agreement < 1e-6
    assert make_team(seed=3).export("b").digest == team.export("b").digest
    assert make_team(seed=4).export("b").digest != team.export("b").digest
    assert make_team(seed=3).export("a").weights != make_team(seed=3).export("b").weights


def test_the_reference_is_the_base_although_training_starts_from_an_adapter(make_team, lantern_samples):
    team = make_team()
    team.update("a", sampled(team, "a", lantern_samples(12)), 0)
    moved = team.export("a")
    again = make_team()
    again.load_adapter("a", moved.config_json, moved.weights)
    samples = sampled(again, "a", lantern_samples(12, 5))
    pi, base = again.logp("a", samples), again.logp("b", samples)
    expected = float((np.exp(pi) * (pi - base)).sum(axis=1).mean())
    assert again.update("a", samples, 1).first.kl == pytest.approx(expected, abs=1e-6)
    assert expected > 1e-6


def test_continuing_from_saved_state_is_bit_identical(make_team, lantern_samples):
    one = make_team(epochs=2, minibatch=5)
    one.update("a", sampled(one, "a", lantern_samples(12)), 0)
    two = make_team(epochs=2, minibatch=5)
    adapter = one.export("a")
    two.load_adapter("a", adapter.config_json, adapter.weights)
    two.load_optimiser_state("a", one.optimiser_state("a"))
    assert two.export("a").digest == adapter.digest
    samples = sampled(one, "a", lantern_samples(12, 9))
    for team in (one, two):
        team.update("a", samples, 1)
    assert one.export("a").digest == two.export("a").digest


def test_disagreement_stops_before_the_step(make_team, lantern_samples):
    team = make_team()
    samples = sampled(team, "a", lantern_samples(6))
    before = team.export("a").digest
    with pytest.raises(AgreementError, match="base digests, temperature"):
        team.update("a", [replace(s, logprob=s.logprob + 0.01) for s in samples], 0)
    assert team.export("a").digest == before


def test_it_learns_the_lanterns(make_team, lantern_samples):
    team = make_team(lr=3e-2, epochs=1, beta=0.0)

    def right(samples):
        return [s.action_keys.index(s.state_key) for s in samples]

    for round_number in range(12):
        samples = lantern_samples(48, round_number)
        paid = [1.0 if s.index == r else -0.5 for s, r in zip(samples, right(samples), strict=True)]
        samples = [replace(s, advantage=a) for s, a in zip(samples, paid, strict=True)]
        team.update("a", sampled(team, "a", samples), round_number)
    fresh = lantern_samples(48, 99)
    p = np.exp(team.logp("a", fresh))
    assert p[np.arange(48), right(fresh)].mean() > 0.8
    still = np.exp(team.logp("b", fresh))
    assert still[np.arange(48), right(fresh)].mean() < 0.5


def test_peft_reads_the_exported_adapter(make_team, folder, lantern_samples, tmp_path):
    from peft import PeftModel

    team = make_team()
    samples = lantern_samples(4)
    team.update("a", sampled(team, "a", samples), 0)
    adapter = team.export("a")
    (tmp_path / "adapter_config.json").write_text(adapter.config_json)
    (tmp_path / "adapter_model.safetensors").write_bytes(adapter.weights)
    model = PeftModel.from_pretrained(Qwen3ForCausalLM.from_pretrained(folder), tmp_path).eval()
    s = Sample(0, 0, 0.0, 0.0, prefix=(1, 2, 3), suffix=(5, 6), labels=((11,), (12,)))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[1, 2, 3, 5, 6]])).logits[0, -1, [11, 12]].double()
    assert team.logp("a", [s])[0] == pytest.approx((logits / TEMPERATURE).log_softmax(-1).tolist(), abs=1e-5)
    assert str(folder) not in adapter.config_json


def test_other_settings_cannot_load_an_adapter(make_team):
    adapter = make_team(rank=2).export("a")
    with pytest.raises(CheckpointError, match="another configuration"):
        make_team(rank=4).load_adapter("a", adapter.config_json, adapter.weights)


def test_labels_must_differ_and_not_be_starts_of_others():
    for labels in (((1,), (1,)), ((1,), (1, 2))):
        with pytest.raises(BackboneError, match="letters scheme"):
            policies.trie_of(labels)


def test_packing_sorts_by_prefix_and_length_and_masks_siblings():
    samples = [
        Sample(0, 0, 0, 0, prefix=(1,), suffix=(5,) * n, labels=((7, 8), (7, 9), (6, 4), (6, 3))) for n in (3, 1, 2)
    ]
    assert microbatches(samples, [0, 1, 2], 2) == [[1, 2], [0]]
    packed = pack(samples)
    visible = packed.visible_NLL[1].int().tolist()
    assert visible[1][:3] == [1, 1, 0]
    assert visible[2][:3] == [1, 0, 1]
    assert packed.positions_NL[1, :3].tolist() == [1, 2, 2]
