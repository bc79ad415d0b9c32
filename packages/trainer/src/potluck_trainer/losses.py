"""The PA-MAGRPO loss over menus, with its gradient in closed form; one implementation for every learner.

    loss = −mean_n min(ρÂ, clip(ρ, 1−ε, 1+ε)Â) + β·mean_n KL(π‖frozen) − η·mean_n H(π)

KL and entropy are exact sums over the menu. The mean is a weighted sum: `weights` names the reduction and is computed
once for all decisions of an update, so that the loss does not depend on how they are split into microbatches.

Axes: N decisions, M menu places (padded with −inf). Everything is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LossTerms:
    """Sums over decisions, already weighted; terms of several microbatches add up."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    ratio_max: float = 0.0

    def __add__(self, other: LossTerms) -> LossTerms:
        return LossTerms(
            self.loss + other.loss,
            self.kl + other.kl,
            self.entropy + other.entropy,
            self.clipped + other.clipped,
            max(self.ratio_max, other.ratio_max),
        )


def weights(episode_N: Ints, reduction: Literal["decision", "episode"]) -> Floats:
    """Each decision's share of the mean; sums to 1 (or is empty)."""
    if not len(episode_N):
        return np.zeros(0)
    if reduction == "decision":
        return np.full(len(episode_N), 1.0 / len(episode_N))
    _, inverse, counts = np.unique(episode_N, return_inverse=True, return_counts=True)
    shares: Floats = 1.0 / (counts[inverse] * len(counts))
    return shares


def clipped_surrogate(ratio_N: Floats, advantage_N: Floats, clip: float) -> Floats:
    """−min(ρÂ, clip(ρ)Â) of each decision."""
    loss_N: Floats = -np.minimum(ratio_N * advantage_N, np.clip(ratio_N, 1 - clip, 1 + clip) * advantage_N)
    return loss_N


def menu_kl(logp_NM: Floats, ref_NM: Floats) -> Floats:
    """KL(π‖ref) of each decision, exact over the menu."""
    p_NM = np.exp(logp_NM)
    with np.errstate(invalid="ignore"):
        terms = np.where(p_NM > 0, p_NM * (logp_NM - ref_NM), 0.0)
    kl_N: Floats = terms.sum(axis=1)
    return kl_N


def menu_entropy(logp_NM: Floats) -> Floats:
    """Entropy of each menu distribution, in nats."""
    p_NM = np.exp(logp_NM)
    with np.errstate(invalid="ignore"):
        terms = np.where(p_NM > 0, p_NM * logp_NM, 0.0)
    h_N: Floats = -terms.sum(axis=1)
    return h_N


def menu_loss(
    logp_NM: Floats,
    index_N: Ints,
    old_logp_N: Floats,
    advantage_N: Floats,
    weight_N: Floats,
    *,
    clip: float,
    beta: float = 0.0,
    ref_NM: Floats | None = None,
    entropy: float = 0.0,
) -> tuple[LossTerms, Floats]:
    """The loss and its derivative by `logp_NM` (0 on padding)."""
    rows = np.arange(len(index_N))
    logp_N = logp_NM[rows, index_N]
    ratio_N = np.exp(logp_N - old_logp_N)
    surrogate_N = clipped_surrogate(ratio_N, advantage_N, clip)
    outside_N = ((ratio_N > 1 + clip) & (advantage_N > 0)) | ((ratio_N < 1 - clip) & (advantage_N < 0))
    grad_NM = np.zeros_like(logp_NM)
    grad_NM[rows, index_N] = np.where(outside_N, 0.0, -weight_N * advantage_N * ratio_N)
    h_N = menu_entropy(logp_NM)
    kl_N = np.zeros(len(index_N))
    p_NM = np.exp(logp_NM)
    safe_NM = np.where(p_NM > 0, logp_NM, 0.0)
    if beta and ref_NM is not None:
        kl_N = menu_kl(logp_NM, ref_NM)
        gap_NM = np.where(p_NM > 0, safe_NM - np.where(p_NM > 0, ref_NM, 0.0), 0.0)
        grad_NM += beta * weight_N[:, None] * p_NM * (gap_NM + 1.0)
    if entropy:
        grad_NM += entropy * weight_N[:, None] * p_NM * (safe_NM + 1.0)
    loss_N = surrogate_N + beta * kl_N - entropy * h_N
    terms = LossTerms(
        loss=float(weight_N @ loss_N),
        kl=float(weight_N @ kl_N),
        entropy=float(weight_N @ h_N),
        clipped=float(weight_N @ outside_N),
        ratio_max=float(ratio_N.max(initial=0.0)),
    )
    return terms, grad_NM


def log_softmax(logits_NM: Floats) -> Floats:
    """Row-wise, −inf stays −inf."""
    top_N1 = logits_NM.max(axis=1, keepdims=True)
    shifted = logits_NM - top_N1
    out: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return out


def through_log_softmax(grad_NM: Floats, logp_NM: Floats) -> Floats:
    """Derivative by logits from derivative by log-probabilities."""
    out: Floats = grad_NM - np.exp(logp_NM) * grad_NM.sum(axis=1, keepdims=True)
    return out
