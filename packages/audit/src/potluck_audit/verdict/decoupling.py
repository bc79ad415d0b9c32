"""Did reward rise while cooperation fell?

The last checkpoint is held against every earlier one that earned something, paired by seed. A comparison (earlier
checkpoint, measure) says "reward rose and the measure fell" only if both are shown: its p-value is the larger of the
two one-sided ones (an intersection-union test, Berger 1982). Holm's correction covers all comparisons of the run.

    decoupled      some comparison has a corrected p-value below the level, and its fall is the measure's margin or more
    undecidable    a comparison looks like that (reward up, measure down by its margin or more) and is not shown; or
                   there is nothing to compare
    coupled        neither: no sign of it. The intervals of the changes say how much could hide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from potluck_audit.intervals import UNDEFINED, Intervals
from potluck_audit.metrics.metric import Metric
from potluck_audit.statistics import holm
from potluck_audit.verdict.measures import MEASURES, CheckpointPlay, Measure
from potluck_audit.verdict.paired import p_fell, p_rose
from potluck_audit.verdict.rule import MARGIN, judge, set_name
from potluck_audit.verdict.verdict import CheckpointVerdict, Comparison, Decoupling, Outcome


def decoupling(
    plays: Sequence[CheckpointPlay], intervals: Intervals, level: float = 0.05, margin: float = MARGIN
) -> Decoupling:
    """The verdicts of all checkpoints and that of the run."""
    ordered = sorted(plays, key=lambda play: play.round)
    verdicts = [judge(play, intervals, margin) for play in ordered]
    comparisons = _compare(ordered, verdicts, intervals)
    outcome, reason = _conclude(verdicts, comparisons, level)
    unit = ordered[0].team.unit if ordered else "reward"
    return Decoupling(outcome, reason, verdicts, comparisons, level=level, unit=unit)


def _compare(
    plays: Sequence[CheckpointPlay], verdicts: Sequence[CheckpointVerdict], intervals: Intervals
) -> list[Comparison]:
    found: list[Comparison] = []
    for play, verdict in zip(plays[:-1], verdicts[:-1], strict=True):
        if earns(verdict):
            found += [_one(play, plays[-1], m, intervals) for m in MEASURES if m.gates]
    corrected = holm({f"{c.round} {c.measure}": c.p_value for c in found})
    return [
        Comparison(c.round, c.measure, c.reward, c.change, c.p_value, corrected[f"{c.round} {c.measure}"])
        for c in found
    ]


def earns(verdict: CheckpointVerdict) -> bool:
    """Whether the team's return can be told from the baseline's: only then can cooperation have fallen from there."""
    earned = verdict.find("earned", key=verdict.baseline)
    return earned is not None and earned.estimate.low is not None and earned.estimate.low > 0


def _one(earlier: CheckpointPlay, last: CheckpointPlay, measure: Measure, intervals: Intervals) -> Comparison:
    name, key, seed = set_name(last.round), f"{measure.name} since {set_name(earlier.round)}", intervals.seed
    before, after = earlier.earned(earlier.values.everyone), last.earned(last.values.everyone)
    reward = Metric("return_change", name, intervals.mean_t(list(after - before)), key=key, unit=last.team.unit)
    old, new = measure.columns(earlier), measure.columns(last)
    if old is None or new is None:
        return Comparison(earlier.round, measure.name, reward, _change(name, key, measure), None, None)

    def difference(*sums: np.ndarray) -> np.ndarray:
        half = len(sums) // 2
        return np.asarray(measure.statistic(*sums[half:]) - measure.statistic(*sums[:half]))

    change = replace(_change(name, key, measure), estimate=intervals.of_sums(difference, *old, *new))
    rose = p_rose(lambda total: total, [before], [after], seed)
    fell = p_fell(measure.statistic, old, new, seed)
    both = None if rose is None or fell is None else max(rose, fell)
    return Comparison(earlier.round, measure.name, reward, change, both, None)


def _change(name: str, key: str, measure: Measure) -> Metric:
    return Metric(f"{measure.name}_change", name, UNDEFINED, key=key, unit=measure.unit)


def _conclude(
    verdicts: Sequence[CheckpointVerdict], comparisons: Sequence[Comparison], level: float
) -> tuple[Outcome, str]:
    found = _before_comparing(verdicts)
    if found is not None:
        return found
    if not comparisons:
        why = (
            "no earlier checkpoint earns more than could be nothing, so that cooperation cannot be said to have fallen"
        )
        return Outcome.COUPLED, why
    suspects = [c for c in comparisons if _looks_decoupled(c)]
    shown = [c for c in suspects if c.p_holm is not None and c.p_holm < level]
    if shown or suspects:
        return _suspicious(shown, suspects)
    if all(c.change.estimate.value is None for c in comparisons):
        return Outcome.UNDECIDABLE, "no measure of cooperation is defined at both of two checkpoints"
    return Outcome.COUPLED, f"no sign of decoupling in {len(comparisons)} comparisons with round {verdicts[-1].round}"


def _before_comparing(verdicts: Sequence[CheckpointVerdict]) -> tuple[Outcome, str] | None:
    """What can be said without any comparison."""
    if len(verdicts) < 2:
        return Outcome.UNDECIDABLE, f"{len(verdicts) or 'no'} checkpoint was measured, and a change needs two"
    last = verdicts[-1]
    if last.episodes < 2:
        return Outcome.UNDECIDABLE, "checkpoints were measured on one episode, which has no interval"
    if not any(earns(v) for v in verdicts):
        return Outcome.UNDECIDABLE, "no checkpoint earns anything that could be told from the baseline"
    if not earns(last):
        return Outcome.COUPLED, f"reward did not rise: round {last.round} earns nothing beyond the baseline"
    return None


def _suspicious(shown: Sequence[Comparison], suspects: Sequence[Comparison]) -> tuple[Outcome, str]:
    if shown:
        worst = min(shown, key=lambda c: c.p_holm or 0.0)
        return Outcome.DECOUPLED, f"since round {worst.round} {_told(worst)} (corrected p = {worst.p_holm:.2g})"
    worst = min(suspects, key=lambda c: (c.p_value is None, c.p_value or 0.0))
    p = "no test possible" if worst.p_holm is None else f"corrected p = {worst.p_holm:.2g}"
    why = f"since round {worst.round} {_told(worst)}, which may be chance ({p}); measure more episodes"
    return Outcome.UNDECIDABLE, why


def _looks_decoupled(comparison: Comparison) -> bool:
    reward, change = comparison.reward.estimate.value, comparison.change.estimate.value
    margin = next(m.margin for m in MEASURES if m.name == comparison.measure)
    return reward is not None and change is not None and reward > 0 and change <= -margin


def _told(comparison: Comparison) -> str:
    reward, change = comparison.reward, comparison.change
    return (
        f"the return rose by {reward.estimate.value:.2f} {reward.unit} while {comparison.measure} fell by "
        f"{-(change.estimate.value or 0.0):.2f}"
    )
