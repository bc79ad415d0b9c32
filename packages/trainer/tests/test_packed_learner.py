"""The packed forward's gradients beside those of the loop that one writes first: one agent's PEFT model, full prompts,
full logits, autograd; and what its round keeps and shares."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from peft import PeftModel  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM  # noqa: E402

from potluck.decoder import architecture  # noqa: E402
from potluck.decoder.architecture import Decoder  # noqa: E402
from potluck_trainer.config import LearnerConfig  # noqa: E402
from potluck_trainer.errors import BackboneError  # noqa: E402
from potluck_trainer.learners.base import Sample  # noqa: E402
from potluck_trainer.learners.layout import Text  # noqa: E402
from potluck_trainer.learners.lora import LoraTeam  # noqa: E402
from potluck_trainer.learners.menu_model import open_round, packed_round  # noqa: E402
from potluck_trainer.learners.packed_round import Entry, PackedRound  # noqa: E402
from potluck_trainer.learners.passes import PackedDecoder, Pass  # noqa: E402

BASE = "b" * 64
TEMPERATURE = 0.9
SIZES = {"vocab_size": 64, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2}
FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"hidden_size": 288, "intermediate_size": 320, "head_dim": 16}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"hidden_size": 48, "intermediate_size": 64, "head_dim": 8}),
}
"""The adapters of one are merged, the other's not."""
LABELS = {
    "letters": ((11,), (12,), (13,), (14,), (15,)),
    "words": ((11,), (12, 13), (12, 14), (15, 16, 17), (15, 16, 18)),
}


@pytest.fixture(scope="module", params=FAMILIES)
def base(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "llama":
            patch.setattr(Decoder, "merges", lambda self: False)
        yield make_base(request, tmp_path_factory)


def make_base(request, tmp_path_factory):
    kind, config, sizes = FAMILIES[request.param]
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp(request.param)
    kind(config(**SIZES, **sizes, tie_word_embeddings=True, initializer_range=0.1)).save_pretrained(path)
    return kind, path


def make_team(base, **changes):
    settings = {"lr": 1e-3, "beta": 0.05, "entropy": 0.01, "rank": 4, "epochs": 1, "agreement": 9.0} | changes
    team = LoraTeam(base[1], ("a", "b"), BASE, LearnerConfig(**settings), TEMPERATURE, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for agent in team.agents:
            for p in team._learners[agent]._own.values():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.05)
    return team


def decisions(scheme, count=7):
    rng = np.random.default_rng(3)
    out = []
    for n in range(count):
        labels = tuple(LABELS[scheme][k] for k in rng.permutation(5)[: int(rng.integers(2, 6))])
        # Some of them begin alike.
        suffix = (*range(31, 31 + n % 6), *(int(t) for t in rng.integers(20, 60, rng.integers(3, 9))))
        prefix = tuple(range(20, 30)) if n % 3 else (5, 6, 7)
        index, old = int(rng.integers(len(labels))), float(-np.log(len(labels)))
        out.append(Sample(n % 4, index, old, float(rng.normal()), prefix=prefix, suffix=suffix, labels=labels))
    return out


def distinct(samples):
    """How many tokens are left when neighbours' common beginnings stand there once."""
    return len({(s.prefix, s.suffix[: k + 1]) for s in samples for k in range(len(s.suffix))})


def naive_logp(model, sample):
    """Constrained sampling's probabilities, every step from a whole prompt and all of the vocabulary's logits."""
    out = []
    for path in sample.labels:
        total = torch.zeros((), dtype=torch.float64)
        for depth, token in enumerate(path):
            options = sorted({p[depth] for p in sample.labels if p[:depth] == path[:depth] and len(p) > depth})
            ids = torch.tensor([[*sample.prefix, *sample.suffix, *path[:depth]]])
            step = (model(input_ids=ids).logits[0, -1].double() / TEMPERATURE)[options].log_softmax(-1)
            total = total + step[options.index(token)]
        out.append(total)
    return torch.stack(out)


def naive_gradients(team, base, samples, tmp_path):
    """By PEFT from the exported adapter: the loss of the update in torch's own words."""
    adapter = team.export("a")
    (tmp_path / "adapter_config.json").write_text(adapter.config_json)
    (tmp_path / "adapter_model.safetensors").write_bytes(adapter.weights)
    model = PeftModel.from_pretrained(base[0].from_pretrained(base[1]), tmp_path, is_trainable=True).eval()
    loss = torch.zeros((), dtype=torch.float64)
    for sample in samples:
        logp = naive_logp(model, sample)
        with torch.no_grad(), model.disable_adapter():
            frozen = naive_logp(model, sample)
        ratio = (logp[sample.index] - sample.logprob).exp()
        kept = torch.minimum(ratio * sample.advantage, ratio.clamp(0.8, 1.2) * sample.advantage)
        p = logp.exp()
        loss = loss + (-kept + 0.05 * (p * (logp - frozen)).sum() + 0.01 * (p * logp).sum()) / len(samples)
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters() if "lora_" in name}
    assert any(p.grad is None for name, p in model.named_parameters() if "lora_" not in name)
    return found


def our_gradients(team, samples, monkeypatch):
    learner, found = team._learners["a"], {}

    def step():
        found.update({name: p.grad.clone() for name, p in learner._own.items()})
        for p in learner._own.values():
            p.grad = None
        return 0.0

    monkeypatch.setattr(learner, "step", step)
    team.update("a", samples, 0)
    return found


def distance(ours, theirs):
    assert ours.keys() == theirs.keys()
    gap = sum(float((ours[name] - theirs[name]).double().square().sum()) for name in ours)
    return (gap / sum(float(g.double().square().sum()) for g in theirs.values())) ** 0.5


@pytest.mark.parametrize(
    ("scheme", "changes"),
    [
        ("letters", {}),
        ("letters", {"top_layers": 1}),
        ("words", {"microbatch": 3}),
        ("words", {"top_layers": 1, "microbatch": 3}),
        ("words", {"top_layers": 2, "targets": "q_proj,v_proj,down_proj"}),
    ],
)
def test_gradients_are_those_of_the_naive_loop(base, scheme, changes, tmp_path, monkeypatch):
    team = make_team(base, **changes)
    assert team._learners["a"].menus.reader
    samples = decisions(scheme)
    theirs = naive_gradients(team, base, samples, tmp_path)
    assert distance(our_gradients(team, samples, monkeypatch), theirs) < 1e-5


def test_a_prefix_without_gradient_would_be_seen(base, tmp_path, monkeypatch):
    """The negative control: keys and values of the rules taken as constants."""
    team, samples = make_team(base), decisions("words")
    theirs = naive_gradients(team, base, samples, tmp_path)
    monkeypatch.setattr(PackedRound, "flush", lambda self: self._opened.clear())
    assert distance(our_gradients(team, samples, monkeypatch), theirs) > 1e-2


def test_the_trunk_runs_once_a_round(base, monkeypatch):
    """Not again in later epochs, nor for the frozen reference."""
    seen = []
    team = make_team(base, top_layers=1, epochs=3, minibatch=3, microbatch=2)
    climb = Pass.climb

    def watched(self, h, layers, keys=None):
        if 0 in layers:
            seen.append(len(h))
        return climb(self, h, layers, keys)

    monkeypatch.setattr(Pass, "climb", watched)
    samples = [replace(s, suffix=(20 + n, *s.suffix)) for n, s in enumerate(decisions("letters"))]
    assert team.update("a", samples, 0).steps == 9
    assert sum(seen) == sum(len(s.suffix) for s in samples) + sum(len(p) for p in {s.prefix for s in samples})
    seen.clear()
    team.update("a", samples, 1)
    assert sum(seen) == sum(len(s.suffix) for s in samples)


def test_common_beginnings_are_computed_once_a_pass(base, monkeypatch):
    seen = []
    team, samples = make_team(base, beta=0.0), decisions("letters", 20)
    begin = PackedDecoder.begin

    def watched(self, texts, *rest, **keywords):
        found = begin(self, texts, *rest, **keywords)
        if texts[0].reads:
            seen.append(len(found.laid.ids_T))
        return found

    monkeypatch.setattr(PackedDecoder, "begin", watched)
    team.update("a", samples, 0)
    assert sum(seen) == distinct(samples) < 0.9 * sum(len(s.suffix) for s in samples)


def test_adapters_on_upper_layers_say_so_in_their_config_and_nowhere_else(base):
    team = make_team(base, top_layers=2)
    names = set(team._learners["a"]._own)
    assert all(".layers.1." in name or ".layers.2." in name for name in names)
    assert '"layers_to_transform":[1,2]' in team.export("a").config_json
    with pytest.raises(BackboneError, match="has 3 layers; give fewer"):
        make_team(base, top_layers=4)


def test_less_memory_makes_smaller_passes_and_the_same_update(base):
    samples = decisions("letters", 40)
    team = make_team(base)
    rounds = open_round([team._learners["a"].menus], [Entry(0, one) for one in samples])
    passes = rounds.microbatches(range(40), 64, 20 * team._learners["a"].menus.kept_bytes())
    assert sorted(n for rows in passes for n in rows) == list(range(40))
    assert max(distinct([samples[n] for n in rows]) for rows in passes) <= 20
    assert len(rounds.microbatches(range(40), 64, 1)) == 40
    assert len(rounds.microbatches(range(40), 64, 1 << 30)) == 1


def test_what_is_kept_is_told_about_right(base):
    """The estimate that bounds passes, beside the tape."""
    team, samples = make_team(base), decisions("letters", 12)
    packed, own = team._learners["a"].menus.reader.packed, team._learners["a"].menus.reader.attached()
    run = packed.begin([Text(0, -1, s.suffix, reads=(0,)) for s in samples], [], [own], keep=True)
    with torch.no_grad():
        run.read(run.climb(run.embed(), range(2)))
    held = {}
    for tensor in tensors(run._tape):
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    real = sum(held.values()) / len(run.laid.ids_T)
    assert 0.4 < team._learners["a"].menus.kept_bytes() / real < 2.5


def tensors(kept):
    if isinstance(kept, torch.Tensor):
        return [kept]
    return [one for part in kept for one in tensors(part)] if isinstance(kept, list | tuple) else []


@pytest.mark.parametrize("scheme", LABELS)
def test_menus_of_one_item_are_certain_and_not_read(base, scheme, monkeypatch):
    """They keep their place and their weight in the mean, and cost nothing."""
    team, samples = make_team(base), decisions(scheme)
    certain = [replace(one, labels=one.labels[:1], index=0, logprob=0.0) for one in samples[:3]]
    read, begin = [], PackedDecoder.begin

    def counted(self, texts, *rest, **keywords):
        read.extend(text.ids for text in texts if text.past >= 0)  # the rules have no past
        return begin(self, texts, *rest, **keywords)

    monkeypatch.setattr(PackedDecoder, "begin", counted)
    mixed = [certain[0], *samples[3:5], certain[1], samples[5], certain[2]]
    found, alone = team.logp("a", mixed), team.logp("a", [*samples[3:5], samples[5]])
    assert sorted(read) == sorted(2 * [samples[n].suffix for n in (3, 4, 5)])
    np.testing.assert_allclose(np.exp(found[[1, 2, 4]]), np.exp(alone[:, : found.shape[1]]), atol=1e-6)
    assert found[[0, 3, 5], 0].tolist() == [0, 0, 0]
    assert np.isneginf(found[[0, 3, 5], 1:]).all()
    report = team.update("a", certain, 0)
    assert (report.decisions, report.grad_norm) == (3, 0)


def joint(team, owned, weights):
    """Log-probabilities and gradients of several agents' decisions in one pass."""
    learners = [team._learners[agent] for agent in team.agents]
    rounds = packed_round([one.menus for one in learners], [Entry(*one) for one in owned])
    logp = rounds.logp(range(len(owned)))
    logp.backward(torch.where(torch.isfinite(logp), weights[:, : logp.shape[1]], 0.0))
    rounds.flush()
    found = {}
    for owner, one in enumerate(learners):
        for name, p in one._own.items():
            found[owner, name] = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            p.grad = None
    return logp.detach(), found


@pytest.mark.parametrize("changes", [{}, {"top_layers": 1}])
@pytest.mark.parametrize("scheme", LABELS)
def test_several_agents_in_one_pass_learn_as_each_alone(base, scheme, changes):
    """Each row under its own agent's adapter, each gradient into its own; exchanged owners are the control."""
    team = make_team(base, **changes)
    owned = [(n % 2, sample) for n, sample in enumerate(decisions(scheme, 12))]
    weights = torch.randn(len(owned), 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    logp, both = joint(team, owned, weights)
    for owner in (0, 1):
        rows = [n for n, one in enumerate(owned) if one[0] == owner]
        alone, own = joint(team, [owned[n] for n in rows], weights[rows])
        torch.testing.assert_close(logp[rows].exp()[:, : alone.shape[1]], alone.exp(), rtol=0, atol=1e-6)
        kept = {key: value for key, value in both.items() if key[0] == owner}
        assert distance(kept, {key: value for key, value in own.items() if key[0] == owner}) < 1e-5
        assert all(not value.any() for key, value in own.items() if key[0] != owner)
    _, exchanged = joint(team, [(1 - owner, sample) for owner, sample in owned], weights)
    assert distance(exchanged, both) > 0.1


def moved(team):
    return {
        (agent, name): p.detach().clone() for agent in team.agents for name, p in team._learners[agent]._own.items()
    }


@pytest.mark.parametrize("changes", [{"minibatch": 5}, {"top_layers": 1}])
def test_agents_that_learn_together_come_out_as_each_alone(base, changes):
    """Two epochs with their own minibatches, steps and reports. Exchanged decisions are the control."""
    samples = {"a": decisions("letters", 12), "b": decisions("words", 7)}
    settings = changes | {"epochs": 2}
    alone, together, exchanged = (make_team(base, **settings | {"joint": one}) for one in (False, True, True))
    assert (alone.jobs, together.jobs) == ((("a",), ("b",)), (("a", "b"),))
    reports = {agent: alone.update(agent, own, 3) for agent, own in samples.items()}
    found = together.update_together(samples, 3)
    for agent, one in reports.items():
        assert (found[agent].decisions, found[agent].steps) == (one.decisions, one.steps)
        for ours, theirs in ((found[agent].first, one.first), (found[agent].last, one.last)):
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-5, abs=1e-7)
        assert found[agent].grad_norm == pytest.approx(one.grad_norm, rel=1e-5)
    start, end = moved(make_team(base, **settings)), moved(alone)
    steps = {key: end[key] - start[key] for key in end}
    assert distance({key: value - start[key] for key, value in moved(together).items()}, steps) < 1e-3
    exchanged.update_together({"a": samples["b"], "b": samples["a"]}, 3)
    assert distance({key: value - start[key] for key, value in moved(exchanged).items()}, steps) > 0.1


def test_a_backbone_that_transformers_reads_cannot_learn_jointly(base, monkeypatch):
    monkeypatch.setattr(architecture, "is_plain", lambda causal: False)
    samples = {"a": decisions("letters", 6), "b": decisions("words", 5)}
    alone, together = make_team(base), make_team(base)
    assert alone.jobs == (("a",), ("b",))
    for agent, own in samples.items():
        alone.update(agent, own, 0)
    together.update_together(samples, 0)
    assert all(torch.equal(p, moved(alone)[key]) for key, p in moved(together).items())
    with pytest.raises(BackboneError, match=r"learner\.joint: .*leave it out"):
        make_team(base, joint=True)
