"""Holds a guard library against play that it was not mined from: successes that it would have hidden.

A success counts as hidden where an inferred guard forbids the features at initiation and the effect can be attributed
(solo records for options without a private part). Successes of such options with partners about are counted apart:
the partner may have caused them. The interval is Clopper and Pearson's exact one over decisions; with no success it
is the one-sided upper bound, 1 - (1 - confidence)^(1/n).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scipy.stats import binomtest

from potluck_optionlib.burnin import Burnin
from potluck_optionlib.burnin.errors import EmptyBurninError
from potluck_optionlib.errors import BurninReusedError
from potluck_optionlib.evidence import EFFECT_FAIL, SUCCESS, TIMEOUT, complete, same_episodes
from potluck_optionlib.guards import GuardLibrary

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Bounds of a rate."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What fresh play said about the guards."""

    decisions: int
    """Finished executions of the fresh burn-in."""
    guarded: int
    """Executions of these that began under an inferred guard and could speak about it."""
    hidden: int
    """Of these, the ones that succeeded: each is a guard that forbids something possible."""
    shared: int
    """Successes under a guard that partners may have caused; not in `hidden`."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Hidden successes by kind: option, features and setting."""

    def __add__(self, other: HeldOut) -> HeldOut:
        """Both together."""
        return HeldOut(
            self.decisions + other.decisions,
            self.guarded + other.guarded,
            self.hidden + other.hidden,
            self.shared + other.shared,
            dict(Counter(self.kinds) + Counter(other.kinds)),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """One per kind of hidden success, with its count."""
        return tuple(
            kind.replace("succeeded", f"succeeded {count} times") for kind, count in sorted(self.kinds.items())
        )

    @property
    def interval(self) -> Interval:
        """Hidden successes per decision."""
        return exact_interval(self.hidden, self.decisions)

    @property
    def guarded_interval(self) -> Interval:
        """Hidden successes per guarded execution."""
        return exact_interval(self.hidden, self.guarded)

    @property
    def text(self) -> str:
        """The result in one line."""
        kind = "one-sided" if self.hidden == 0 else "two-sided"
        return (
            f"{self.hidden} hidden successes of {self.decisions} decisions "
            f"({kind} {CONFIDENCE:.0%} interval {self.interval.low:.2g} to {self.interval.high:.2g}), "
            f"{self.guarded} of them under a guard; {self.shared} successes that a partner may have caused"
        )


def exact_interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Clopper-Pearson bounds of a rate; one-sided where there is no success. (0, 1) without trials."""
    if trials == 0:
        return Interval(0.0, 1.0)
    side = "two-sided" if successes else "less"
    bounds = binomtest(successes, trials, alternative=side).proportion_ci(confidence, "exact")
    return Interval(float(bounds.low), float(bounds.high))


def hold_out(library: GuardLibrary, fresh: Burnin) -> HeldOut:
    """Fresh records under the library's guards.

    Raises ContractMismatchError where the contracts differ, EmptyBurninError without records and BurninReusedError for
    a burn-in that shares episodes with one that the library was mined from.
    """
    library.check(fresh.contracts_digest)
    for ref in library.certificate.burnins if library.certificate else ():
        mined = (ref.game, ref.seed, ref.solo_episodes + ref.team_episodes)
        if same_episodes(fresh.game, fresh.plan.seed, fresh.plan.episodes, mined):
            raise BurninReusedError(
                f"The library was mined from episodes of this burn-in ({fresh.game}, seed {fresh.plan.seed}), so they "
                "cannot contradict it. Play another seed."
            )
    decisions = guarded = hidden = shared = 0
    kinds: Counter[str] = Counter()
    for tally in fresh.tallies():
        decisions += tally.count
        row = dict(complete(tally.features, tally.option))
        if tally.outcome not in (SUCCESS, EFFECT_FAIL, TIMEOUT) or not library.forbids(tally.option, row):
            continue
        succeeded = tally.outcome == SUCCESS
        if not tally.solo and tally.option in fresh.solo_only:
            shared += tally.count * succeeded
            continue
        guarded += tally.count
        if succeeded:
            hidden += tally.count
            when = " & ".join(f"{name} = {value}" for name, value in row.items())
            kinds[f"{tally.option} with {when} succeeded ({'solo' if tally.solo else 'team'})"] += tally.count
    if not decisions:
        raise EmptyBurninError(f"The fresh burn-in of {fresh.game} has no records. Run it with more episodes.")
    return HeldOut(decisions, guarded, hidden, shared, dict(kinds))
