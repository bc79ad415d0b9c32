"""What burn-in records say about guards: tallies of several burn-ins as one table of distinct feature rows an option.

A success is evidence for, an effect that failed and a time-out are evidence against, an explicit failure speaks for
the explicit channel alone. An execution that raised is a defect of its executor, not a fact about the game: it is
counted and left out. Options whose effect has no private part speak through solo records only. A feature that a row
lacks, or that is NaN there, equals nothing: such a row backs no literal on it, still vetoes the literals on its other
features, and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from potluck_optionlib.burnin import Burnin, Tally
from potluck_optionlib.burnin.errors import EmptyBurninError, SameEpisodesError
from potluck_optionlib.errors import ContractMismatchError, RecordError

EXPLICIT = "explicit:"
RAISED = "raised:"
SUCCESS, EFFECT_FAIL, TIMEOUT = "success", "effect_fail", "timeout"
_NAN = "nan"

Literal = tuple[str, str]
Row = tuple[Literal, ...]


class Source(NamedTuple):
    """Where an execution was recorded."""

    burnin: int
    """Place of the burn-in in the order given."""
    solo: bool


class Verdict(NamedTuple):
    """How an execution that says something about effects ended."""

    source: Source
    outcome: str
    """`SUCCESS`, `EFFECT_FAIL` or `TIMEOUT`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that guards are mined from."""

    rows: Mapping[str, Mapping[Row, Counter[Verdict]]]
    """By option, the distinct feature rows (sorted pairs) and how executions that began under them ended."""
    explicit: Mapping[tuple[str, str], Counter[Source]]
    """Explicit failures by option and reason."""
    raised: Sequence[int]
    """Executions that raised, by burn-in."""
    incomplete: Sequence[int]
    """Executions with a missing or NaN feature, by burn-in."""


@dataclass(slots=True)
class _Gathered:
    rows: dict[str, dict[Row, Counter[Verdict]]] = field(default_factory=dict)
    explicit: dict[tuple[str, str], Counter[Source]] = field(default_factory=dict)


def gather(burnins: Sequence[Burnin]) -> Evidence:
    """The evidence of one or several burn-ins under the same contracts.

    Raises ContractMismatchError for different contracts (or no burn-in), SameEpisodesError for episodes that would
    count twice, EmptyBurninError for an empty burn-in and RecordError for an outcome or a feature that is none.
    """
    if len({(burnin.contracts_digest, burnin.solo_only) for burnin in burnins}) != 1:
        raise ContractMismatchError(
            "Burn-ins of different contracts (or none at all) cannot be mined together. Run them again under one "
            "version of the game."
        )
    check_apart(burnins)
    gathered = _Gathered()
    raised, incomplete = [0] * len(burnins), [0] * len(burnins)
    for place, burnin in enumerate(burnins):
        seen = burnin.tallies()
        if not seen:
            raise EmptyBurninError(
                f"The burn-in of {burnin.game} (seed {burnin.plan.seed}) has no records, so nothing can be mined from "
                "it. Run it with more episodes or a longer horizon."
            )
        whole = _read_sets(seen)
        for tally in seen:
            row = complete(tally.features, f"{burnin.game}: {tally.option}")
            if tally.outcome.startswith(RAISED):
                raised[place] += tally.count
                continue
            incomplete[place] += tally.count * (len(row) < whole[tally.option])
            _add(gathered, tally, row, Source(place, tally.solo), frozenset(burnin.solo_only))
    return Evidence(gathered.rows, gathered.explicit, raised, incomplete)


def same_episodes(game: str, seed: int, episodes: int, other: tuple[str, int, int]) -> bool:
    """Do two burn-ins (game, seed, episodes in all) overlap?

    An episode is played from the game, the seed and its number, and numbers begin at 0: two burn-ins of a game and a
    seed share what the shorter one has, however solo and team episodes, horizons and digests differ.
    """
    return (game, seed) == other[:2] and min(episodes, other[2]) > 0


def check_apart(burnins: Sequence[Burnin]) -> None:
    """Raises SameEpisodesError where two burn-ins share episodes, which would count twice."""
    for one, other in combinations(burnins, 2):
        plans = one.plan, other.plan
        if one.digest == other.digest or same_episodes(
            one.game, plans[0].seed, plans[0].episodes, (other.game, plans[1].seed, plans[1].episodes)
        ):
            raise SameEpisodesError(
                f"Two burn-ins of {one.game} with seed {plans[0].seed} share episodes ({one.digest[:12]} and "
                f"{other.digest[:12]}), which would count twice. Leave one out, or play it with another seed."
            )


def complete(features: Mapping[str, str], where: str) -> Row:
    """The features that are there, sorted. A NaN is not there; anything else but text is a RecordError."""
    row = []
    for name, value in features.items():
        if value is None or value != value:
            continue
        if not isinstance(value, str):
            raise RecordError(
                f"{where}: feature {name!r} is {value!r} ({type(value).__name__}), but features are text. "
                "Write it as text in the contract's features and run the burn-in again."
            )
        if value.casefold() != _NAN:
            row.append((name, value))
    return tuple(sorted(row))


def _read_sets(tallies: Iterable[Tally]) -> dict[str, int]:
    names: dict[str, set[str]] = {}
    for tally in tallies:
        names.setdefault(tally.option, set()).update(tally.features)
    return {option: len(found) for option, found in names.items()}


def _add(gathered: _Gathered, tally: Tally, row: Row, source: Source, solo_only: frozenset[str]) -> None:
    if tally.outcome.startswith(EXPLICIT):
        key = (tally.option, tally.outcome.removeprefix(EXPLICIT))
        gathered.explicit.setdefault(key, Counter())[source] += tally.count
    elif tally.outcome in (SUCCESS, EFFECT_FAIL, TIMEOUT):
        if tally.solo or tally.option not in solo_only:
            verdicts = gathered.rows.setdefault(tally.option, {}).setdefault(row, Counter())
            verdicts[Verdict(source, tally.outcome)] += tally.count
    else:
        raise RecordError(
            f"{tally.option} has the outcome {tally.outcome!r}; known are success, effect_fail, timeout, "
            "explicit:<reason> and raised:<exception>. Run the burn-in with this version."
        )
