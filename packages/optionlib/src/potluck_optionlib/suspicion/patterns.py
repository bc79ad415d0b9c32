"""What in a burn-in means that a contract, and not the play, is at fault.

Each pattern looks at the counts of one option and at nothing else, and needs at least `ENOUGH` executions, so that a
short burn-in accuses nobody. What a game did not tell (`own_changed`, `changed` None) is never evidence. A pattern is
a suspicion: the evidence is told with it, and the author decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from potluck_optionlib.burnin import Burnin, Tally
from potluck_optionlib.contracts import Contract
from potluck_optionlib.evidence import EFFECT_FAIL, EXPLICIT, RAISED, SUCCESS, TIMEOUT, check_apart, complete
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.suspicion.silence import silences

ENOUGH = 5
"""Executions that a pattern needs."""


class SuspicionKind(StrEnum):
    """The patterns."""

    ALWAYS_EXPLICIT = "always_explicit"
    """Every execution failed explicitly, although others get on with the game."""
    EFFECT_WITHOUT_CHANGE = "effect_without_change"
    """Successes around which nothing changed."""
    UNATTRIBUTED_SUCCESS = "unattributed_success"
    """Successes around which only what agents share changed, of an option that is not `solo_only`."""
    NEVER_OFFERED = "never_offered"
    """The guards leave no state of the burn-in in which the option could be offered."""
    NEVER_CHOSEN = "never_chosen"
    """No execution at all."""
    NEVER_FINISHES = "never_finishes"
    """Every execution that began ran into its time-out, or none ever ended."""
    RAISES = "raises"
    """The executor, the effect or the features raised."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One pattern found."""

    kind: SuspicionKind
    option: str
    evidence: str
    """What was seen and what to look at, in one or two sentences."""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Case:
    """One option's part of the records."""

    option: str
    tallies: Sequence[Tally]
    solo_only: bool
    library: GuardLibrary
    reasons: Counter[str]
    """Executions by outcome."""
    silences: int
    """Agents, over all episodes, that began something that never ended."""

    @property
    def total(self) -> int:
        return self.reasons.total()

    def count(self, match: Callable[[Tally], bool]) -> int:
        return sum(tally.count for tally in self.tallies if match(tally))


def examine(
    burnin: Burnin | Sequence[Burnin],
    library: GuardLibrary,
    contracts: Iterable[Contract[Any]] = (),
    options: Iterable[str] = (),
) -> tuple[Suspicion, ...]:
    """All patterns in the records, by option and kind.

    `contracts` (or their names as `options`) say what else there is that nobody chose. Raises ContractMismatchError
    where the library is of other contracts, SameEpisodesError for burn-ins whose episodes would count twice.
    """
    burnins = [burnin] if isinstance(burnin, Burnin) else list(burnin)
    check_apart(burnins)
    known = {contract.name: contract for contract in contracts}
    solo_only = {name for one in burnins for name in one.solo_only}
    by_option: dict[str, list[Tally]] = {name: [] for name in (*known, *options)}
    for one in burnins:
        library.check(one.contracts_digest)
        for tally in one.tallies():
            by_option.setdefault(tally.option, []).append(tally)
    found: list[Suspicion] = []
    silent = sum(silences(one) for one in burnins) if any(not tallies for tallies in by_option.values()) else 0
    for option in sorted(by_option):
        reasons: Counter[str] = Counter()
        for tally in by_option[option]:
            reasons[tally.outcome] += tally.count
        case = _Case(option, by_option[option], option in solo_only, library, reasons, silent)
        found += [suspicion for pattern in _PATTERNS if (suspicion := pattern(case)) is not None]
    return tuple(found)


def _never_chosen(case: _Case) -> Suspicion | None:
    if case.total:
        return None
    if case.silences >= ENOUGH:
        text = (
            f"no execution of it ever ended, and {case.silences} times an agent began something that had not ended "
            "with its episode. Does the executor end, and is `timeout` shorter than an episode?"
        )
        return Suspicion(SuspicionKind.NEVER_FINISHES, case.option, text, {"silences": case.silences})
    text = "no execution in the whole burn-in. Is its target in this game, and does `instances` return it?"
    return Suspicion(SuspicionKind.NEVER_CHOSEN, case.option, text)


def _raises(case: _Case) -> Suspicion | None:
    raised = {outcome: n for outcome, n in sorted(case.reasons.items()) if outcome.startswith(RAISED)}
    if not raised:
        return None
    names = ", ".join(f"{outcome.removeprefix(RAISED)} {n} times" for outcome, n in raised.items())
    text = f"raised {names} in {case.total} executions: a defect of its hooks; these executions are no evidence."
    return Suspicion(SuspicionKind.RAISES, case.option, text, raised)


def _always_explicit(case: _Case) -> Suspicion | None:
    explicit = {outcome: n for outcome, n in sorted(case.reasons.items()) if outcome.startswith(EXPLICIT)}
    if case.total < ENOUGH or sum(explicit.values()) < case.total:
        return None
    names = ", ".join(f"{outcome.removeprefix(EXPLICIT)} {n}" for outcome, n in explicit.items())
    text = (
        f"all {case.total} executions failed explicitly ({names}). If the task can be done at all, `instances` names "
        "the wrong targets: return one instance for every target, not only the nearest."
    )
    return Suspicion(SuspicionKind.ALWAYS_EXPLICIT, case.option, text, explicit)


def _effect_without_change(case: _Case) -> Suspicion | None:
    wins = case.count(lambda t: t.outcome == SUCCESS)
    still = case.count(lambda t: t.outcome == SUCCESS and t.changed is False)
    if still < ENOUGH:
        return None
    text = (
        f"{still} of {wins} successes changed nothing that the effect looks at. The effect is on the state and not on "
        "its change: compare `before` with `after`."
    )
    return Suspicion(SuspicionKind.EFFECT_WITHOUT_CHANGE, case.option, text, {"without_change": still, "success": wins})


def _unattributed_success(case: _Case) -> Suspicion | None:
    wins = case.count(lambda t: t.outcome == SUCCESS)
    shared = case.count(lambda t: t.outcome == SUCCESS and t.own_changed is False and t.changed is True)
    team = case.count(lambda t: t.outcome == SUCCESS and t.own_changed is False and t.changed is True and not t.solo)
    if case.solo_only or shared < ENOUGH:
        return None
    text = (
        f"in {shared} of {wins} successes ({team} with partners about) nothing of the actor's own changed: a partner "
        "may have caused them. Bind the effect to a change of the actor's own, or set solo_only."
    )
    counts = {"unattributed": shared, "team": team, "success": wins}
    return Suspicion(SuspicionKind.UNATTRIBUTED_SUCCESS, case.option, text, counts)


def _never_offered(case: _Case) -> Suspicion | None:
    tried = [tally for tally in case.tallies if tally.outcome in (SUCCESS, EFFECT_FAIL, TIMEOUT)]
    if case.solo_only:
        tried = [tally for tally in tried if tally.solo]
    total = sum(tally.count for tally in tried)
    open_ = any(not case.library.forbids(t.option, dict(complete(t.features, t.option))) for t in tried)
    if total < ENOUGH or open_:
        return None
    guards = [g.text for g in case.library.guards if g.option == case.option and g.channel.value == "inferred"]
    text = (
        f"its {len(guards)} guards forbid every state in which it was tried ({total} executions, no success): it is "
        "never offered. Does the effect promise what the engine does?"
    )
    return Suspicion(SuspicionKind.NEVER_OFFERED, case.option, text, {"tried": total, "guards": len(guards)})


def _never_finishes(case: _Case) -> Suspicion | None:
    begun = case.count(lambda t: t.outcome in (SUCCESS, EFFECT_FAIL, TIMEOUT))
    late = case.reasons[TIMEOUT]
    if late < ENOUGH or late < begun:
        return None
    text = f"all {late} executions that began ran into the time-out. Is `timeout` too short, or does it never end?"
    return Suspicion(SuspicionKind.NEVER_FINISHES, case.option, text, {TIMEOUT: late, "executions": case.total})


_PATTERNS: tuple[Callable[[_Case], Suspicion | None], ...] = (
    _never_chosen,
    _raises,
    _always_explicit,
    _effect_without_change,
    _unattributed_success,
    _never_offered,
    _never_finishes,
)
