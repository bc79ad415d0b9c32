"""Mines guards from burn-in records: what never worked and failed often enough is left out of menus.

Explicit channel: a typed reason seen at least `min_support` times for an option becomes a guard that menu building
re-checks live. Inferred channel: every conjunction of one or two equalities over an option's read set is adopted iff
at least `min_support` executions that started under it failed and none succeeded; a conjunction that contains an
adopted one is dropped. A success whose precondition only became true on the way counts as a success, so guards never
take away what a partner makes possible. Options whose effect has no private part are judged on solo records only.

A literal is a column of bits over the option's records, so a conjunction is one AND and two sums. Records that ended
explicitly say nothing about effects; time-outs count as failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from potluck_optionlib.burnin import Burnin, Record
from potluck_optionlib.errors import ContractMismatchError
from potluck_optionlib.guards import BurninRef, Certificate, Channel, Guard, GuardLibrary

MIN_SUPPORT = 5
MAX_LITERALS = 2
_EXPLICIT = "explicit:"

Literal = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Bits:
    """Records of one option as packed bit columns."""

    literals: tuple[Literal, ...]
    columns: npt.NDArray[np.uint8]
    failed: npt.NDArray[np.uint8]
    succeeded: npt.NDArray[np.uint8]

    def verdict(self, chosen: Sequence[int]) -> tuple[int, int]:
        """Failures and successes under a conjunction."""
        under = np.bitwise_and.reduce(self.columns[list(chosen)], axis=0)
        fails = int(np.bitwise_count(under & self.failed).sum())
        wins = int(np.bitwise_count(under & self.succeeded).sum())
        return fails, wins


def mine(burnins: Sequence[Burnin], min_support: int = MIN_SUPPORT) -> GuardLibrary:
    """The guard library of one or several burn-ins under the same contracts."""
    digests = {burnin.contracts_digest for burnin in burnins}
    if len(digests) != 1:
        raise ContractMismatchError("Burn-ins of different contracts (or none at all) cannot be mined together.")
    solo_only = frozenset(name for burnin in burnins for name in burnin.solo_only)
    records = [record for burnin in burnins for record in burnin.records]
    guards = (*_explicit(records, min_support), *_inferred(records, solo_only, min_support))
    certificate = Certificate(
        contracts_digest=digests.pop(),
        min_support=min_support,
        max_literals=MAX_LITERALS,
        burnins=tuple(_reference(burnin) for burnin in burnins),
        successes_under_guards=_contradictions(guards, records, solo_only),
    )
    return GuardLibrary(certificate=certificate, guards=guards)


def _explicit(records: Iterable[Record], min_support: int) -> list[Guard]:
    seen = Counter((r.option, r.outcome.removeprefix(_EXPLICIT)) for r in records if r.outcome.startswith(_EXPLICIT))
    return [
        Guard(option=option, channel=Channel.EXPLICIT, when={"explicit": reason}, support=count)
        for (option, reason), count in sorted(seen.items())
        if count >= min_support
    ]


def _inferred(records: Sequence[Record], solo_only: frozenset[str], min_support: int) -> list[Guard]:
    by_option: dict[str, list[Record]] = {}
    for record in records:
        if not record.outcome.startswith(_EXPLICIT) and (record.solo or record.option not in solo_only):
            by_option.setdefault(record.option, []).append(record)
    return [guard for option in sorted(by_option) for guard in _of_option(option, by_option[option], min_support)]


def _of_option(option: str, records: Sequence[Record], min_support: int) -> list[Guard]:
    bits = _bits(records)
    adopted: list[tuple[int, ...]] = []
    guards = []
    for size in range(1, MAX_LITERALS + 1):
        for chosen in combinations(range(len(bits.literals)), size):
            literals = [bits.literals[i] for i in chosen]
            if len({name for name, _ in literals}) < size or any(set(a) <= set(chosen) for a in adopted):
                continue
            fails, wins = bits.verdict(chosen)
            if fails >= min_support and wins == 0:
                adopted.append(chosen)
                guards.append(Guard(option=option, channel=Channel.INFERRED, when=dict(literals), support=fails))
    return guards


def _bits(records: Sequence[Record]) -> _Bits:
    literals = tuple(sorted({item for record in records for item in record.features.items()}))
    columns = np.array([[r.features.get(name) == value for r in records] for name, value in literals], bool)
    won = np.array([record.outcome == "success" for record in records], bool)
    packed = np.packbits(columns.reshape(len(literals), len(records)), axis=1)
    return _Bits(literals, packed, np.packbits(~won), np.packbits(won))


def _contradictions(guards: Sequence[Guard], records: Iterable[Record], solo_only: frozenset[str]) -> int:
    library = GuardLibrary(guards=tuple(guards))
    return sum(
        record.outcome == "success"
        and (record.solo or record.option not in solo_only)
        and library.forbids(record.option, record.features)
        for record in records
    )


def _reference(burnin: Burnin) -> BurninRef:
    return BurninRef(
        game=burnin.game,
        digest=burnin.digest,
        seed=burnin.plan.seed,
        solo_episodes=burnin.plan.solo_episodes,
        team_episodes=burnin.plan.team_episodes,
        records=len(burnin.records),
    )
