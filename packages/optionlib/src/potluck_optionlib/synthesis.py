"""Finds the conjunctions of one option that failed often and never succeeded, exactly and all at once.

Input are the distinct feature rows of an option with their counts, so the work does not grow with the number of
executions. A literal is a column of bits over these rows; failures and successes under every pair of literals are two
matrix products (numbers below 2^53, so floating point counts exactly). Rows go through in blocks, which bounds memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from potluck_optionlib.evidence import Literal, Row

_BLOCK = 4096
"""Rows at a time."""


@dataclass(frozen=True, slots=True)
class Found:
    """A conjunction that guards."""

    literals: tuple[Literal, ...]
    failures: int


def conjunctions(rows: Sequence[Row], fails: Sequence[int], wins: Sequence[int], min_support: int) -> list[Found]:
    """All conjunctions of one or two literals with at least `min_support` failures and no success.

    A pair that contains an adopted literal is dropped. Sorted: single literals first, then pairs, each by name and
    value. `fails` and `wins` count executions by row.
    """
    literals = tuple(sorted({literal for row in rows for literal in row}))
    if not literals:
        return []
    columns = _columns(rows, literals)
    lost, won = np.array(fails, np.float64), np.array(wins, np.float64)
    single_lost, single_won = _under(columns, lost), _under(columns, won)
    adopted = (single_lost >= min_support) & (single_won == 0)
    found = [Found((literals[i],), int(single_lost[i])) for i in np.flatnonzero(adopted)]
    open_ = np.flatnonzero((single_lost >= min_support) & ~adopted)
    return found + _pairs([literals[i] for i in open_], columns[open_], lost, won, min_support)


def _pairs(
    literals: Sequence[Literal],
    columns: npt.NDArray[np.bool_],
    lost: npt.NDArray[np.float64],
    won: npt.NDArray[np.float64],
    min_support: int,
) -> list[Found]:
    size = len(literals)
    pair_lost, pair_won = np.zeros((size, size)), np.zeros((size, size))
    for start in range(0, columns.shape[1], _BLOCK):
        part = slice(start, start + _BLOCK)
        bits = columns[:, part].astype(np.float64)
        pair_lost += (bits * lost[part]) @ bits.T
        pair_won += (bits * won[part]) @ bits.T
    names = np.array([name for name, _ in literals])
    good = (pair_lost >= min_support) & (pair_won == 0) & (names[:, None] != names[None, :])
    return [
        Found((literals[i], literals[j]), int(pair_lost[i, j]))
        for i, j in zip(*np.nonzero(np.triu(good, 1)), strict=True)
    ]


def _under(columns: npt.NDArray[np.bool_], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Weight of the rows under each literal."""
    total = np.zeros(len(columns))
    for start in range(0, columns.shape[1], _BLOCK):
        part = slice(start, start + _BLOCK)
        total += columns[:, part] @ weights[part]
    return total


def _columns(rows: Sequence[Row], literals: Sequence[Literal]) -> npt.NDArray[np.bool_]:
    index = {literal: i for i, literal in enumerate(literals)}
    columns = np.zeros((len(literals), len(rows)), bool)
    for place, row in enumerate(rows):
        for literal in row:
            columns[index[literal], place] = True
    return columns
