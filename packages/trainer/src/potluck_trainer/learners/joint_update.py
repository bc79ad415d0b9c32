"""A round's update of some agents over one base, in passes that hold decisions of them all.

Each agent has its own minibatches, loss, gradient, clipping and step, as if it learned alone; the passes are shared.
Step k of an epoch is that of every agent's minibatch k, so an agent with fewer decisions is done with the epoch before
the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from potluck_trainer import losses
from potluck_trainer.config import LearnerConfig
from potluck_trainer.learners.base import (
    GoOn,
    Sample,
    UpdateReport,
    check_agreement,
    columns,
    derive_seed,
    minibatches,
)
from potluck_trainer.learners.menu_model import MenuRound
from potluck_trainer.learners.packed_round import Entry
from potluck_trainer.losses import Floats, Ints, LossTerms

Open = Callable[[Sequence[Entry]], MenuRound]


class Steps(Protocol):
    """What takes an agent's gradient."""

    def step(self) -> float:
        """An optimiser step; the gradient's norm before clipping."""
        ...


class Turn:
    """One agent's part of the update. Its decisions are rows first, first + 1, ... of the round."""

    def __init__(
        self, agent: str, samples: Sequence[Sample], learner: Steps, first: int, config: LearnerConfig
    ) -> None:
        self.agent, self.samples, self.learner = agent, samples, learner
        self.rows = range(first, first + len(samples))
        self._config = config
        self._episode_N, self._index_N, self._old_logp_N, self._advantage_N = columns(samples)
        self._weight_N = np.zeros(len(samples))
        self._difference = self._agreement = self._grad_norm = 0.0
        self._steps = 0
        self._first: LossTerms | None = None
        self._last = LossTerms()

    def batches(self, seed: int) -> list[Ints]:
        """Its minibatches of an epoch."""
        return minibatches(len(self.samples), self._config.minibatch, seed)

    def begin(self, batch: Ints) -> list[int]:
        """Rows of a minibatch that begins."""
        self._weight_N = np.zeros(len(self.samples))
        self._weight_N[batch] = losses.weights(self._episode_N[batch], self._config.reduction)
        self._last, self._difference = LossTerms(), 0.0
        return [self.rows.start + n for n in batch.tolist()]

    def take(self, rows: Sequence[int], logp_NM: Floats, ref_NM: Floats | None) -> Floats:
        """Adds rows of a pass to the loss; their gradient with respect to logp_NM."""
        own = np.array(rows) - self.rows.start
        sampled = logp_NM[np.arange(len(own)), self._index_N[own]]
        self._difference = max(self._difference, float(np.abs(sampled - self._old_logp_N[own]).max()))
        terms, grad_NM = losses.menu_loss(
            logp_NM,
            self._index_N[own],
            self._old_logp_N[own],
            self._advantage_N[own],
            self._weight_N[own],
            clip=self._config.clip,
            beta=self._config.beta,
            ref_NM=ref_NM,
            entropy=self._config.entropy,
        )
        self._last += terms
        return grad_NM

    def agree(self) -> None:
        """Before the first step. Raises AgreementError."""
        if self._first is None:
            self._first, self._agreement = self._last, self._difference
            check_agreement(self._agreement, self._config.agreement, self.agent)

    def step(self) -> None:
        """Ends the minibatch."""
        self._grad_norm = self.learner.step()
        self._steps += 1

    def report(self, seconds: float) -> UpdateReport:
        return UpdateReport(
            len(self.samples), self._steps, self._first or self._last, self._last, self._agreement, self._grad_norm,
            seconds,
        )  # fmt: skip


def update(
    learners: Mapping[str, Steps],
    samples: Mapping[str, Sequence[Sample]],
    open_round: Open,
    config: LearnerConfig,
    seed: int,
    round_number: int,
    go_on: GoOn,
) -> dict[str, UpdateReport]:
    """One round's steps of these agents; entries go to `open_round` under the agents' numbers in `samples`. Seconds
    are those of the whole update."""
    started = time.perf_counter()
    turns, count = list[Turn](), 0
    for agent, own in samples.items():
        turns.append(Turn(agent, own, learners[agent], count, config))
        count += len(own)
    taken = open_round([Entry(owner, one) for owner, turn in enumerate(turns) for one in turn.samples])
    menu = max(sample.size for turn in turns for sample in turn.samples)
    ref_NM = read(taken, count, menu, config, adapted=False, go_on=go_on) if config.beta else None
    for epoch in range(config.epochs):
        seeds = [derive_seed(seed, "minibatch", turn.agent, round_number, epoch) for turn in turns]
        batches = [turn.batches(own) for turn, own in zip(turns, seeds, strict=True)]
        for number in range(max(map(len, batches))):
            taking = [(turn, own[number]) for turn, own in zip(turns, batches, strict=True) if number < len(own)]
            _minibatch(taken, taking, ref_NM, menu, config, go_on)
    seconds = time.perf_counter() - started
    return {turn.agent: turn.report(seconds) for turn in turns}


def _minibatch(
    taken: MenuRound,
    taking: Sequence[tuple[Turn, Ints]],
    ref_NM: Floats | None,
    menu: int,
    config: LearnerConfig,
    go_on: GoOn,
) -> None:
    whole = [n for turn, batch in taking for n in turn.begin(batch)]
    for rows in taken.microbatches(whole, config.microbatch, config.pass_memory << 20):
        go_on()
        logp = taken.logp(rows)
        logp_NM = _wide(logp, menu)
        grad_NM = np.zeros_like(logp_NM)
        for turn, _ in taking:
            if here := [place for place, n in enumerate(rows) if n in turn.rows]:
                own = [rows[place] for place in here]
                grad_NM[here] = turn.take(own, logp_NM[here], None if ref_NM is None else ref_NM[own])
        _backward(logp, grad_NM)
    taken.flush()
    for turn, _ in taking:
        turn.agree()
    for turn, _ in taking:
        turn.step()


@torch.no_grad()
def read(taken: MenuRound, count: int, menu: int, config: LearnerConfig, *, adapted: bool, go_on: GoOn) -> Floats:
    """logp_NM of all decisions, under the present weights or the frozen base's."""
    out_NM = np.full((count, menu), -np.inf)
    for rows in taken.microbatches(range(count), 2 * config.microbatch, config.pass_memory << 20):
        go_on()
        out_NM[rows] = _wide(taken.logp(rows, adapted), menu)
    return out_NM


def _wide(logp: torch.Tensor, menu: int) -> Floats:
    """logp_NM of `menu` columns, -inf beyond a decision's own."""
    out = np.full((len(logp), menu), -np.inf)
    out[:, : logp.shape[1]] = logp.detach().cpu().numpy()
    return out


def _backward(logp: torch.Tensor, grad_NM: Floats) -> None:
    if not logp.requires_grad:
        return
    grad = torch.from_numpy(np.ascontiguousarray(grad_NM[:, : logp.shape[1]])).to(logp.device)
    torch.autograd.backward(logp, torch.where(torch.isfinite(logp), grad, torch.zeros_like(grad)))
