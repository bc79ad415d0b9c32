"""One round as numbers, for `metrics.jsonl` and the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from potluck.play import DecisionRecord, EpisodeResult
from potluck_trainer.algorithms.base import Advantages
from potluck_trainer.learners.base import UpdateReport
from potluck_trainer.rollouts import Collected


def round_metrics(
    round_number: int,
    collected: Collected,
    advantages: Advantages,
    reports: Mapping[str, UpdateReport],
    digests: Mapping[str, str],
    acting_s: float,
    learning_s: float,
) -> dict[str, Any]:
    """A line of `metrics.jsonl`; undefined numbers are null."""
    results = list(collected.results.values())
    returns = np.array([result.finished.team_return for result in results])
    return {
        "round": round_number,
        "episodes": len(results),
        "lost": len(collected.lost),
        "reruns": sum(result.attempts - 1 for result in results),
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "returns": returns.tolist(),
        "skipped": advantages.skip.value if advantages.skip else None,
        "advantage_scale": advantages.scale,
        "decisions": collected.decisions,
        "decisions_per_s": collected.decisions / acting_s if acting_s > 0 else None,
        "acting_s": acting_s,
        "learning_s": learning_s,
        "agreement_max": max((report.agreement for report in reports.values()), default=None),
        "agents": {
            agent: _agent(agent, results, reports.get(agent)) | {"adapter": digests[agent]} for agent in digests
        },
    }


def _agent(agent: str, results: list[EpisodeResult], report: UpdateReport | None) -> dict[str, Any]:
    records = [record for result in results for record in result.decisions if record.agent == agent]
    masses = [record.label_mass for record in records if not math.isnan(record.label_mass)]
    numbers: dict[str, Any] = {
        "decisions": len(records),
        "entropy": _entropy(records),
        "label_mass": _mean(masses),
        "cut": sum(record.cut for record in records),
    }
    if report is None:
        return numbers
    return numbers | {
        "loss_first": report.first.loss,
        "loss_last": report.last.loss,
        "kl_first": report.first.kl,
        "kl_last": report.last.kl,
        "clip_fraction": report.last.clipped,
        "ratio_max": report.last.ratio_max,
        "grad_norm": report.grad_norm,
        "agreement": report.agreement,
        "steps": report.steps,
        "update_s": report.seconds,
    }


def _entropy(records: list[DecisionRecord]) -> float | None:
    """Mean entropy of the menu distributions, in nats."""
    p = np.array([p for record in records for p in record.probabilities if p > 0])
    return float(-(p * np.log(p)).sum() / len(records)) if records else None


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
