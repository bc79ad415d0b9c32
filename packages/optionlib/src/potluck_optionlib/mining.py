"""Mines guards from burn-in records: what never worked and failed often enough is left out of menus.

Explicit channel: a typed reason seen at least `min_support` times for an option becomes a guard that menu building
re-checks live. Inferred channel: every conjunction of one or two equalities over an option's read set is adopted iff
at least `min_support` executions that started under it failed and none succeeded; a conjunction that contains an
adopted literal is dropped. A success whose precondition only became true on the way counts as a success, so guards
never take away what a partner makes possible. What counts as evidence is in `evidence`, the search in `synthesis`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from potluck_optionlib.burnin import Burnin
from potluck_optionlib.burnin.errors import SupportError
from potluck_optionlib.evidence import SUCCESS, TIMEOUT, Evidence, Row, Source, Verdict, gather
from potluck_optionlib.guards import BurninRef, Certificate, Channel, Guard, GuardLibrary, Support
from potluck_optionlib.synthesis import Found, conjunctions

MIN_SUPPORT = 5
MAX_LITERALS = 2


def mine(burnins: Sequence[Burnin], min_support: int = MIN_SUPPORT) -> GuardLibrary:
    """The guard library of one or several burn-ins under the same contracts.

    Raises SupportError for a `min_support` below 1 and what `evidence.gather` raises.
    """
    if type(min_support) is not int or min_support < 1:
        raise SupportError(
            f"min_support must be a whole number of at least 1, not {min_support!r}. "
            f"A guard needs failures to rest on; {MIN_SUPPORT} are usual."
        )
    evidence = gather(burnins)
    digests = [burnin.digest for burnin in burnins]
    guards = (*_explicit(evidence, digests, min_support), *_inferred(evidence, digests, min_support))
    certificate = Certificate(
        contracts_digest=burnins[0].contracts_digest,
        min_support=min_support,
        max_literals=MAX_LITERALS,
        burnins=tuple(_reference(*parts) for parts in zip(burnins, digests, _lost(evidence), strict=True)),
    )
    return GuardLibrary(certificate=certificate, guards=guards)


def _explicit(evidence: Evidence, digests: Sequence[str], min_support: int) -> Iterator[Guard]:
    for (option, reason), counts in sorted(evidence.explicit.items()):
        if counts.total() >= min_support:
            yield Guard(
                option=option,
                channel=Channel.EXPLICIT,
                when={"explicit": reason},
                support=counts.total(),
                supports=_supports(counts, Counter(), digests),
            )


def _inferred(evidence: Evidence, digests: Sequence[str], min_support: int) -> Iterator[Guard]:
    for option in sorted(evidence.rows):
        rows = evidence.rows[option]
        wins = [_count(verdicts, won=True) for verdicts in rows.values()]
        fails = [_count(verdicts, won=False) for verdicts in rows.values()]
        for found in conjunctions(tuple(rows), fails, wins, min_support):
            failures, timeouts = _failures_under(found, rows)
            yield Guard(
                option=option,
                channel=Channel.INFERRED,
                when=dict(found.literals),
                support=found.failures,
                supports=_supports(failures, timeouts, digests),
            )


def _count(verdicts: Counter[Verdict], won: bool) -> int:
    return sum(count for verdict, count in verdicts.items() if (verdict.outcome == SUCCESS) is won)


def _failures_under(found: Found, rows: Mapping[Row, Counter[Verdict]]) -> tuple[Counter[Source], Counter[Source]]:
    failures: Counter[Source] = Counter()
    timeouts: Counter[Source] = Counter()
    for row, verdicts in rows.items():
        if set(found.literals) <= set(row):
            for verdict, count in verdicts.items():
                failures[verdict.source] += count
                timeouts[verdict.source] += count * (verdict.outcome == TIMEOUT)
    return failures, timeouts


def _supports(failures: Counter[Source], timeouts: Counter[Source], digests: Sequence[str]) -> tuple[Support, ...]:
    return tuple(
        Support(
            burnin=digest,
            solo=failures[Source(place, True)],
            team=failures[Source(place, False)],
            timeouts=timeouts[Source(place, True)] + timeouts[Source(place, False)],
        )
        for place, digest in enumerate(digests)
        if failures[Source(place, True)] + failures[Source(place, False)]
    )


def _lost(evidence: Evidence) -> Iterator[tuple[int, int]]:
    return zip(evidence.raised, evidence.incomplete, strict=True)


def _reference(burnin: Burnin, digest: str, lost: tuple[int, int]) -> BurninRef:
    raised, incomplete = lost
    return BurninRef(
        game=burnin.game,
        digest=digest,
        seed=burnin.plan.seed,
        solo_episodes=burnin.plan.solo_episodes,
        team_episodes=burnin.plan.team_episodes,
        horizon=burnin.plan.horizon,
        records=burnin.records,
        raised=raised,
        incomplete=incomplete,
    )
