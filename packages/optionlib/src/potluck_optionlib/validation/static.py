"""Rules that reading a contract is enough for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from potluck_optionlib.contracts import Contract, contracts_digest
from potluck_optionlib.menus import LETTERS
from potluck_optionlib.validation.faults import Fault, Rule

WAIT = "wait"
_PARTNER = ("partner", "mate", "teammate", "other_agent")
_TYPED = re.compile(r"[A-Z][A-Za-z]*")
_WORD = re.compile(r"[a-z][a-z0-9_]*")


def static_faults(
    contracts: Mapping[str, Contract[Any]], digest: str, partner_features: frozenset[str]
) -> Iterator[Fault]:
    """All that is wrong with the contracts as data; `digest` is what the game says of them."""
    for key, contract in contracts.items():
        yield from _names(key, contract)
        yield from _reads(contract, partner_features)
        yield from _ending(contract)
    yield from _together(contracts, digest)


def _names(key: str, contract: Contract[Any]) -> Iterator[Fault]:
    name = contract.name
    if not isinstance(name, str) or not _WORD.fullmatch(name):
        yield Fault(Rule.NAME, str(key), "name", f"it is {name!r}", "Use lower-case letters, digits and underscores.")
    elif key != name:
        yield Fault(Rule.NAME, name, "name", f"the game keeps it as {key!r}", "Keep contracts by their own names.")
    if not isinstance(contract.stem, str) or not _WORD.fullmatch(contract.stem):
        yield Fault(Rule.STEM, name, "stem", f"it is {contract.stem!r}", "Use one short lower-case word.")
    elif contract.stem[-1].isdigit():
        yield Fault(
            Rule.STEM,
            name,
            "stem",
            f"{contract.stem!r} ends in a digit",
            "Ordinals are added to it: end it in a letter.",
        )
    if not isinstance(contract.promise, str) or not contract.promise.strip():
        yield Fault(Rule.PROMISE, name, "promise", "it is empty", "Say in words what the effect predicate says.")


def _reads(contract: Contract[Any], partner_features: frozenset[str]) -> Iterator[Fault]:
    name = contract.name
    if not isinstance(contract.reads, tuple):
        yield Fault(Rule.READS, name, "reads", f"it is {contract.reads!r}", "Give a tuple of feature names.")
        return
    for feature in contract.reads:
        if not isinstance(feature, str) or not feature.strip():
            yield Fault(Rule.READS, name, "reads", f"it names {feature!r}", "Name features with non-empty text.")
        elif feature in partner_features or feature.casefold().startswith(_PARTNER):
            seen = f"{feature!r} is a partner's"
            cure = "Leave it out: where a partner is passes quickly, and a guard on it would forbid what soon works."
            yield Fault(Rule.PARTNER_FEATURE, name, "reads", seen, cure)
    for feature, count in Counter(contract.reads).items():
        if count > 1:
            yield Fault(Rule.READS, name, "reads", f"{feature!r} is there {count} times", "Name it once.")


def _ending(contract: Contract[Any]) -> Iterator[Fault]:
    name, timeout = contract.name, contract.timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1:
        yield Fault(
            Rule.TIMEOUT, name, "timeout", f"it is {timeout!r}", "Give a number of primitive steps, at least 1."
        )
    for reason in contract.failures:
        if not isinstance(reason, str) or not _TYPED.fullmatch(reason):
            cure = "Type it like NoPath, NothingHeld or TargetAbsent: guards of the explicit channel name it."
            yield Fault(Rule.FAILURES, name, "failures", f"{reason!r} is no typed reason", cure)


def _together(contracts: Mapping[str, Contract[Any]], digest: str) -> Iterator[Fault]:
    if WAIT not in contracts:
        seen = f"there is no option {WAIT!r} (there are {', '.join(contracts) or 'none'})"
        yield Fault(Rule.WAIT, "", "contracts", seen, "Add it, always feasible, so that a menu is never empty.")
    if len(contracts) > len(LETTERS):
        seen = f"there are {len(contracts)} option types, and a menu has {len(LETTERS)} letters"
        yield Fault(Rule.TOO_MANY, "", "contracts", seen, "Merge types, so that a menu can hold one of each.")
    stems: dict[str, list[str]] = {}
    for contract in contracts.values():
        stems.setdefault(contract.stem, []).append(contract.name)
    for stem, names in stems.items():
        if len(names) > 1:
            seen = f"{', '.join(names)} share {stem!r}"
            yield Fault(Rule.STEM, names[-1], "stem", seen, "Give each its own, so that words name one type.")
    try:
        expected = contracts_digest(contracts.values())
    except (TypeError, ValueError) as error:
        yield Fault(
            Rule.DIGEST, "", "contracts_digest", f"no digest can be taken ({error})", "Keep contracts' data plain."
        )
        return
    if expected != digest:
        seen = f"it is {digest[:12]!r}, over the contracts it would be {expected[:12]!r}"
        cure = "Return contracts_digest(contracts), so that guards of other contracts are refused."
        yield Fault(Rule.DIGEST, "", "contracts_digest", seen, cure)
