"""Our loss beside trl's GRPO loss on the same numbers (extra `trl`; skipped without it).

An episode is trl's sequence and each of its decisions a token, so that `learner.reduction` = decision is trl's `bnpo`
(a mean over all tokens) and = episode is trl's `grpo` (a mean of sequences' means). trl's KL is an estimate from the
sampled token, ours is exact over the menu, so both are compared at beta 0.
"""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl", reason="the extra `trl` is not installed")

from trl import GRPOTrainer  # noqa: E402

from potluck_trainer import losses  # noqa: E402

DECISIONS = np.array([3, 7, 1, 5])
"""Of each episode."""
CLIP = 0.2


class GivenNumbers(GRPOTrainer):
    """trl's arithmetic without its model: the log-probabilities are handed in."""

    def __init__(self, loss_type, logp, clip):
        self.loss_type, self.logp = loss_type, logp
        self.epsilon_low = self.epsilon_high = clip
        self.importance_sampling_level, self.top_entropy_quantile, self.beta = "token", 1.0, 0.0
        self.off_policy_mask_threshold = None
        self.use_vllm = self.vllm_importance_sampling_correction = False
        self.aux_loss_enabled = self._entropy_bonus_enabled = False
        self.model = SimpleNamespace(training=False)
        self.args = SimpleNamespace(delta=None, use_bias_correction_kl=False)
        self.accelerator = SimpleNamespace(gather=lambda x: x, reduce=lambda x, reduction: x)
        self._metrics = defaultdict(lambda: defaultdict(list))

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        return self.logp, torch.zeros_like(self.logp), None


def numbers(seed=0):
    """Log-probabilities of the chosen places before and after, advantages; ratios on both sides of the clip."""
    rng = np.random.default_rng(seed)
    count = DECISIONS.sum()
    logits = rng.normal(size=(count, 5))
    logits[::3, 3:] = -np.inf
    index = rng.integers(0, 3, count)
    logp = losses.log_softmax(logits)
    old = logp[np.arange(count), index] + rng.normal(scale=0.4, size=count)
    return logp, index, old, rng.choice([-1.5, -0.5, 1.0, 2.0], len(DECISIONS))


def by_trl(loss_type, logp, index, old, advantage, clip=CLIP):
    """trl's loss, and its derivative by the log-probabilities of the chosen places."""
    mask = torch.from_numpy(np.arange(DECISIONS.max()) < DECISIONS[:, None])

    def grid(values):
        out = torch.zeros(mask.shape, dtype=torch.float64)
        out[mask] = torch.from_numpy(values)
        return out

    chosen = grid(logp[np.arange(len(index)), index]).requires_grad_()
    inputs = {
        "prompt_ids": torch.zeros(len(DECISIONS), 0, dtype=torch.long),
        "prompt_mask": torch.zeros(len(DECISIONS), 0, dtype=torch.long),
        "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
        "completion_mask": mask.double(),
        "advantages": torch.from_numpy(advantage),
        "old_per_token_logps": grid(old),
    }
    loss = GivenNumbers(loss_type, chosen, clip)._compute_loss(None, inputs)
    torch.autograd.backward(loss)
    return float(loss.detach()), chosen.grad[mask].numpy()


def ours(reduction, logp, index, old, advantage):
    episode = np.repeat(np.arange(len(DECISIONS)), DECISIONS)
    weight = losses.weights(episode, reduction)
    terms, grad = losses.menu_loss(logp, index, old, advantage[episode], weight, clip=CLIP)
    return terms, grad[np.arange(len(index)), index]


PAIRS = [("decision", "bnpo"), ("episode", "grpo")]


@pytest.mark.parametrize(("reduction", "loss_type"), PAIRS)
@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_those_of_trl(reduction, loss_type, seed):
    given = numbers(seed)
    terms, grad = ours(reduction, *given)
    assert 0 < terms.clipped < 1, "some decisions are clipped and some are not"
    theirs, slope = by_trl(loss_type, *given)
    assert terms.loss == pytest.approx(theirs, abs=1e-12)
    assert grad == pytest.approx(slope, abs=1e-12)


@pytest.mark.parametrize(("reduction", "loss_type"), [(ours, theirs) for ours, _ in PAIRS for _, theirs in PAIRS])
def test_the_comparison_sees_another_reduction_and_another_clip(reduction, loss_type):
    given = numbers()
    terms, _ = ours(reduction, *given)
    same = (reduction, loss_type) in PAIRS
    assert (abs(terms.loss - by_trl(loss_type, *given)[0]) < 1e-12) is same
    assert abs(terms.loss - by_trl(loss_type, *given, clip=0.1)[0]) > 1e-3
