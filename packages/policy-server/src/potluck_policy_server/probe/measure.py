"""What is measured of a backbone under one label scheme, and what is recommended from it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from potluck_policy_server.backbones.base import LETTERS, WORDS, Adapter, Backbone, Query, Scheme, Scores
from potluck_policy_server.errors import PolicyServerError
from potluck_policy_server.probe.questions import Question

BATCH = 16
NAMES: dict[Scheme, str] = {LETTERS: "letters", WORDS: "words"}
READS = 0.5
"""Share of held-out questions, beyond chance and out of what is beyond chance, from which a scheme counts as read."""
CLOSE = 0.05


class Measured(NamedTuple):
    """One scheme, frozen or fitted."""

    scheme: Scheme
    fitted: bool
    right: dict[int, float]
    """Share of right greedy answers by menu size."""
    skill: float
    """Mean over sizes of (right - 1/n) / (1 - 1/n): 0 = chance, 1 = always right."""
    prior: float
    """Total variation between the mean menu policy by place and uniform, mean over sizes: 0 = no favoured place."""
    favourite: str
    """The label's letter, or the place, that gets most on average in menus of the middle size."""
    mass: float
    """Mean full-vocabulary probability of the offered labels."""
    rate: float
    """Decisions per second in batches of 16."""


def measure(
    backbone: Backbone, scheme: Scheme, adapter: Adapter | None, tests: Mapping[int, Sequence[Question]]
) -> Measured:
    """Asks all questions; raises the backbone's error where it cannot read one."""
    asked = [(n, question) for n, questions in tests.items() for question in questions]
    began = time.perf_counter()
    scores: list[Scores] = []
    for start in range(0, len(asked), BATCH):
        queries = [Query(question.prompt, adapter, 1.0, scheme) for _, question in asked[start : start + BATCH]]
        scores += [_good(one) for one in backbone.score([backbone.prepare(query) for query in queries])]
    seconds = time.perf_counter() - began
    right: dict[int, float] = {}
    priors, favourite = [], ""
    for n, questions in tests.items():
        own = [s for (m, _), s in zip(asked, scores, strict=True) if m == n]
        hits = [int(np.argmax(s.logprobs)) == q.right for s, q in zip(own, questions, strict=True)]
        right[n] = float(np.mean(hits))
        mean = np.mean([np.exp(s.logprobs) for s in own], axis=0)
        priors.append(0.5 * float(np.abs(mean - 1 / n).sum()))
        if n == sorted(tests)[len(tests) // 2]:
            place = int(mean.argmax())
            favourite = f"{chr(65 + place)} ({mean[place]:.2f} of menus of {n}, uniform {1 / n:.2f})"
    return Measured(
        scheme=scheme,
        fitted=adapter is not None,
        right=right,
        skill=float(np.mean([(share - 1 / n) / (1 - 1 / n) for n, share in right.items()])),
        prior=float(np.mean(priors)),
        favourite=favourite,
        mass=float(np.mean([s.label_mass for s in scores])),
        rate=len(asked) / seconds,
    )


def recommend(found: Sequence[Measured]) -> tuple[str, str]:
    """(scheme, why). Letters cost the paper's comparison nothing, so they win a tie; words win where letters are not
    bound, because a label that keeps its meaning can be learnt without binding."""
    best = {scheme: max((one for one in found if one.scheme == scheme), key=lambda m: m.skill, default=None)
            for scheme in (LETTERS, WORDS)}  # fmt: skip
    letters, words = best[LETTERS], best[WORDS]
    if letters is None or words is None:
        only = letters or words
        assert only is not None
        return NAMES[only.scheme], "the only scheme that this backbone reads"
    if letters.skill >= READS and letters.skill >= words.skill - CLOSE:
        return "letters", f"it finds the right letter (skill {letters.skill:.2f}, words {words.skill:.2f})"
    if words.skill >= READS:
        return (
            "words",
            f"it finds the right word (skill {words.skill:.2f}) and not the right letter ({letters.skill:.2f})",
        )
    why = f"it binds neither (letters {letters.skill:.2f}, words {words.skill:.2f}), and words keep their meaning"
    return "words", why


def _good(outcome: Scores | PolicyServerError) -> Scores:
    if isinstance(outcome, PolicyServerError):
        raise outcome
    return outcome
