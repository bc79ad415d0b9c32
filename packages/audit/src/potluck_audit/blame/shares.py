"""An agent's credit shared among its decisions: signed shares that add up to the credit exactly.

Dividing by the sum of labels is undefined where they cancel and turns signs around where the sum is negative. The
two-pool form has neither fault. Labels are read relative to the credit's sign; with alpha = 1.5 where both pools exist
and 1 where no label is against the credit,

    w_t =  alpha       |l_t| / sum of |l| of aligned labels         for aligned labels
    w_t = -(alpha - 1) |l_t| / sum of |l| of anti-aligned labels    for those against it
    w_t = 0                                                         for zero labels and missing ones

and w_t = 1/n for all where nothing is aligned. So the w sum to 1, |w| <= alpha, and a share is w_t times the credit.
With labels of -1, 0 and 1 the pools are shared equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite

ALPHA = 1.5


def weights(labels: Sequence[float | None], credit: float, alpha: float = ALPHA) -> list[float]:
    """One weight a decision. Raises ValueError for no decisions, labels that are not numbers, or alpha below 1."""
    if not labels:
        raise ValueError("there are no decisions to share credit among")
    if not (isfinite(credit) and all(label is None or isfinite(label) for label in labels)):
        raise ValueError("credit and labels must be numbers")
    if alpha < 1:
        raise ValueError(f"alpha {alpha} is below 1")
    sign = 1.0 if credit >= 0 else -1.0
    own = [sign * (label or 0.0) for label in labels]
    aligned = fsum(label for label in own if label > 0)
    against = -fsum(label for label in own if label < 0)
    if aligned <= 0:
        return [1 / len(own)] * len(own)
    if against <= 0:
        return [max(label, 0.0) / aligned for label in own]
    return [alpha * label / aligned if label > 0 else (alpha - 1) * label / against for label in own]


def two_pool(labels: Sequence[float | None], credit: float, alpha: float = ALPHA) -> list[float]:
    """The shares; `math.fsum` of them is the credit to the last bit. Raises ValueError as `weights` does."""
    shares = [weight * credit for weight in weights(labels, credit, alpha)]
    by_size = sorted((at for at, one in enumerate(shares) if one), key=lambda at: abs(shares[at]))
    for at in (*by_size[-1:], *by_size[:1]):  # the largest takes the rest; what that rounds away goes to the smallest
        shares[at] += fsum([credit, *(-one for one in shares)])
    return shares
