"""The menu loss against hand values, published numbers, finite differences and autograd."""

import json
from pathlib import Path

import numpy as np
import pytest

from potluck_trainer import losses
from potluck_trainer.learners.base import minibatches

REFERENCES = {case["id"]: case for case in json.loads((Path(__file__).parent / "grpo_numeric_refs.json").read_text())}


def menu(rng, count=5, width=4):
    logits = rng.normal(size=(count, width))
    logits[0, 2:] = -np.inf
    logits[1, 3:] = -np.inf
    index = np.array([0, 2, 3, 1, 0])[:count]
    return logits, index


def run(logits, index, old, advantage, weight, **kwargs):
    return losses.menu_loss(losses.log_softmax(logits), index, old, advantage, weight, **kwargs)


def test_ppo_clip_reference():
    case = REFERENCES["ppo_clip"]
    ratio, advantage = np.array(case["inp"]["ratio"]), np.array(case["inp"]["adv"], dtype=float)
    found = losses.clipped_surrogate(ratio, advantage, 0.2)
    assert found == pytest.approx(case["out"]["per_token"])
    weight = losses.weights(np.array([0, 1, 2]), "decision")
    assert weight @ found == pytest.approx(case["out"]["token_mean"])


def test_the_whole_loss_has_the_reference_value():
    """A two-item menu whose first item has the wanted probability after the step."""
    case = REFERENCES["ppo_clip"]["inp"]
    old = np.full(3, -1.0)
    p = np.exp(old) * np.array(case["ratio"])
    logp = np.log(np.stack([p, 1 - p], axis=1))
    weight = losses.weights(np.array([0, 1, 2]), "decision")
    terms, _ = losses.menu_loss(logp, np.zeros(3, int), old, np.array(case["adv"], float), weight, clip=0.2)
    assert terms.loss == pytest.approx(REFERENCES["ppo_clip"]["out"]["token_mean"])
    assert terms.clipped == pytest.approx(1 / 3)


def test_lengths_two_and_six_name_the_reduction():
    """+1 over two decisions, -1 over six, ratio 1: .5 by decision, 0 by episode."""
    episode = np.array([0] * 2 + [1] * 6)
    advantage = np.array([1.0] * 2 + [-1.0] * 6)
    logits, index = np.zeros((8, 2)), np.zeros(8, int)
    old = np.full(8, np.log(0.5))
    for reduction, expected in (("decision", 0.5), ("episode", 0.0)):
        weight = losses.weights(episode, reduction)
        assert weight.sum() == pytest.approx(1)
        terms, _ = run(logits, index, old, advantage, weight, clip=0.2)
        assert terms.loss == pytest.approx(expected)


def test_all_masked_is_zero_and_finite():
    assert losses.weights(np.zeros(0, int), "decision").sum() == 0.0
    terms, grad = run(np.zeros((2, 2)), np.zeros(2, int), np.zeros(2), np.ones(2), np.zeros(2), clip=0.2)
    assert terms.loss == REFERENCES["all_masked_zero"]["out"]["loss"]
    assert not grad.any()


def test_kl_is_exact_and_zero_against_itself():
    rng = np.random.default_rng(0)
    logits, _ = menu(rng)
    logp = losses.log_softmax(logits)
    assert losses.menu_kl(logp, logp).tolist() == [0.0] * 5
    p, q = np.array([0.75, 0.25]), np.array([0.5, 0.5])
    expected = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    assert losses.menu_kl(np.log(p)[None], np.log(q)[None]) == pytest.approx([expected])


def test_kl_stays_finite_where_probabilities_vanish():
    """The published mask case: a place that is not offered adds exactly nothing, whatever stands there."""
    logp = np.array([[np.log(0.5), np.log(0.5), -np.inf], [0.0, -800.0, -np.inf]])
    ref = np.array([[np.log(0.25), np.log(0.75), np.nan], [0.0, -1.0, np.nan]])
    found = losses.menu_kl(logp, ref)
    assert np.isfinite(found).all()
    assert found[1] == 0.0


@pytest.mark.parametrize("reduction", ["decision", "episode"])
def test_gradient_equals_finite_differences(reduction):
    rng = np.random.default_rng(1)
    logits, index = menu(rng)
    ref = losses.log_softmax(np.where(np.isfinite(logits), rng.normal(size=logits.shape), -np.inf))
    old = losses.log_softmax(logits)[np.arange(5), index] + np.array([0.0, 0.3, -0.3, 0.05, -0.05])
    advantage = np.array([1.0, -1.0, 0.5, -2.0, 2.0])
    weight = losses.weights(np.array([0, 0, 1, 1, 1]), reduction)
    settings = {"clip": 0.2, "beta": 0.05, "ref_NM": ref, "entropy": 0.01}
    logp = losses.log_softmax(logits)
    _, by_logp = losses.menu_loss(logp, index, old, advantage, weight, **settings)
    found = losses.through_log_softmax(by_logp, logp)
    for n, m in np.argwhere(np.isfinite(logits)):
        step = np.zeros_like(logits)
        step[n, m] = 1e-6
        up, _ = run(logits + step, index, old, advantage, weight, **settings)
        down, _ = run(logits - step, index, old, advantage, weight, **settings)
        assert found[n, m] == pytest.approx((up.loss - down.loss) / 2e-6, abs=1e-7)
    assert found[~np.isfinite(logits)].tolist() == [0.0] * 3


def test_gradient_equals_autograd():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    logits, index = rng.normal(size=(5, 4)), np.array([0, 2, 3, 1, 0])
    old = losses.log_softmax(logits)[np.arange(5), index] + rng.normal(scale=0.3, size=5)
    advantage, weight = rng.normal(size=5), losses.weights(np.arange(5), "decision")
    ref = losses.log_softmax(logits + rng.normal(size=logits.shape))
    x = torch.tensor(logits, requires_grad=True)
    logp = x.log_softmax(-1)
    ratio = (logp[torch.arange(5), torch.tensor(index)] - torch.tensor(old)).exp()
    a = torch.tensor(advantage)
    p = logp.exp()
    kl = (p * (logp - torch.tensor(ref))).sum(-1)
    (-torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() + 0.05 * kl.mean()).backward()
    terms, by_logp = run(logits, index, old, advantage, weight, clip=0.2, beta=0.05, ref_NM=ref)
    found = losses.through_log_softmax(by_logp, losses.log_softmax(logits))
    assert found == pytest.approx(x.grad.numpy(), abs=1e-12)
    assert terms.kl == pytest.approx(float(kl.detach().mean()))


def test_the_loss_does_not_depend_on_the_split():
    rng = np.random.default_rng(3)
    logits, index = menu(rng)
    old, advantage = np.full(5, -1.2), rng.normal(size=5)
    weight = losses.weights(np.array([0, 0, 0, 1, 1]), "episode")
    whole, gradient = run(logits, index, old, advantage, weight, clip=0.2)
    parts = [run(logits[s], index[s], old[s], advantage[s], weight[s], clip=0.2) for s in (slice(0, 2), slice(2, 5))]
    assert (parts[0][0] + parts[1][0]).loss == pytest.approx(whole.loss, abs=1e-15)
    assert np.concatenate([parts[0][1], parts[1][1]]) == pytest.approx(gradient, abs=1e-15)


def test_per_rollout_mass_reference():
    """Rows of rollouts A, A, B with 2, 1 and 3 decisions: by episode each rollout has the same mass."""
    episode = np.array([0, 0, 0, 1, 1, 1])
    weight = losses.weights(episode, "episode")
    assert weight[:3].sum() == pytest.approx(weight[3:].sum())
    assert weight[:3] == pytest.approx([1 / 6] * 3)


def test_minibatches_cover_every_decision_once_and_repeat():
    assert [batch.tolist() for batch in minibatches(3, 0, 5)] == [[0, 1, 2]]
    batches = minibatches(10, 4, 7)
    assert sorted(np.concatenate(batches).tolist()) == list(range(10))
    assert [b.tolist() for b in minibatches(10, 4, 7)] == [b.tolist() for b in batches]
    assert [b.tolist() for b in minibatches(10, 4, 8)] != [b.tolist() for b in batches]
