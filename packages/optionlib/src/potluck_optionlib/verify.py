"""Re-derives every certificate of a guard library from the records that it names.

Each guard is counted again record kind by record kind, by the rule as it is written and not by the synthesiser's
matrices; then the records are mined again, so that a guard which they would give and the library lacks shows too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from potluck_optionlib.burnin import Burnin, Tally
from potluck_optionlib.errors import OptionlibError
from potluck_optionlib.evidence import EXPLICIT, RAISED, SUCCESS, TIMEOUT, complete
from potluck_optionlib.guards import Channel, Guard, GuardLibrary, Support
from potluck_optionlib.mining import MAX_LITERALS, MIN_SUPPORT, mine


class Flaw(StrEnum):
    """What can be wrong with a certificate."""

    NO_CERTIFICATE = "no_certificate"
    THRESHOLDS = "thresholds"
    CONTRACTS = "contracts"
    DIGEST = "digest"
    """A burn-in is not the one that the certificate names, or one is missing."""
    ORIGIN = "origin"
    """What the certificate says about a burn-in is not so."""
    DOES_NOT_HOLD = "does_not_hold"
    """Something succeeded under the guard, or too little failed."""
    SUPPORT = "support"
    """The support is not what the records say."""
    MISSING = "missing"
    """The records give a guard that the library lacks."""
    NOT_MINED = "not_mined"
    """The guard holds but mining would not adopt it, such as a pair that contains an adopted literal."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    flaw: Flaw
    text: str


def rederive(library: GuardLibrary, burnins: Sequence[Burnin]) -> tuple[Finding, ...]:
    """All that is wrong with a library, given the burn-ins that its certificate names (in any order)."""
    certificate = library.certificate
    if certificate is None:
        return (Finding(Flaw.NO_CERTIFICATE, "the library has no certificate: nothing says what it rests on"),)
    findings = [*_origin(library, burnins)]
    by_digest = {burnin.digest: burnin for burnin in burnins}
    named = [by_digest[ref.digest] for ref in certificate.burnins if ref.digest in by_digest]
    if len(named) < len(certificate.burnins) or not named:
        return tuple(findings)
    for guard in library.guards:
        findings += _count_again(guard, named, certificate.min_support)
    return (*findings, *_mine_again(library, named, certificate.min_support))


def _origin(library: GuardLibrary, burnins: Sequence[Burnin]) -> list[Finding]:
    certificate = library.certificate
    assert certificate is not None
    found = []
    if certificate.max_literals != MAX_LITERALS:
        found.append(
            Finding(Flaw.THRESHOLDS, f"max_literals is {certificate.max_literals}, this program's {MAX_LITERALS}")
        )
    if certificate.min_support < MIN_SUPPORT:
        text = f"min_support is {certificate.min_support}, a guard should rest on {MIN_SUPPORT} failures at least"
        found.append(Finding(Flaw.THRESHOLDS, text))
    digests = {burnin.digest: burnin for burnin in burnins}
    for ref in certificate.burnins:
        if ref.digest not in digests:
            given = ", ".join(f"{b.game} {b.digest[:12]}" for b in burnins) or "none"
            text = f"the certificate names the burn-in {ref.digest[:12]} of {ref.game}; given: {given}"
            found.append(Finding(Flaw.DIGEST, text))
    for digest in digests.keys() - {ref.digest for ref in certificate.burnins}:
        text = f"the burn-in {digest[:12]} of {digests[digest].game} is not in the certificate"
        found.append(Finding(Flaw.DIGEST, text))
    for burnin in burnins:
        if burnin.contracts_digest != certificate.contracts_digest:
            text = f"{burnin.game} was played under contracts {burnin.contracts_digest[:12]}, the library is mined "
            found.append(Finding(Flaw.CONTRACTS, f"{text}under {certificate.contracts_digest[:12]}"))
    return found


def _count_again(guard: Guard, burnins: Sequence[Burnin], min_support: int) -> list[Finding]:
    wins, supports = 0, []
    for burnin in burnins:
        under = [tally for tally in burnin.tallies() if _speaks(tally, burnin) and _under(tally, guard)]
        wins += sum(tally.count for tally in under if tally.outcome == SUCCESS)
        lost = [tally for tally in under if tally.outcome != SUCCESS]
        solo = sum(tally.count for tally in lost if tally.solo)
        team = sum(tally.count for tally in lost if not tally.solo)
        timeouts = sum(tally.count for tally in lost if tally.outcome == TIMEOUT)
        if lost:
            supports.append(Support(burnin=burnin.digest, solo=solo, team=team, timeouts=timeouts))
    support = sum(part.solo + part.team for part in supports)
    found = []
    if wins:
        found.append(Finding(Flaw.DOES_NOT_HOLD, f"{guard.text}: {wins} executions under it succeeded"))
    if support < min_support:
        found.append(Finding(Flaw.DOES_NOT_HOLD, f"{guard.text}: {support} failures, {min_support} are needed"))
    if support != guard.support:
        found.append(Finding(Flaw.SUPPORT, f"{guard.text}: support {guard.support}, the records say {support}"))
    elif tuple(supports) != guard.supports:
        found.append(Finding(Flaw.SUPPORT, f"{guard.text}: its support by burn-in and setting is not as recorded"))
    return found


def _speaks(tally: Tally, burnin: Burnin) -> bool:
    return tally.outcome.startswith(EXPLICIT) or (
        not tally.outcome.startswith(RAISED) and (tally.solo or tally.option not in burnin.solo_only)
    )


def _under(tally: Tally, guard: Guard) -> bool:
    if tally.option != guard.option:
        return False
    if guard.channel is Channel.EXPLICIT:
        return tally.outcome == EXPLICIT + guard.when.get("explicit", "")
    if tally.outcome.startswith(EXPLICIT):
        return False
    features = dict(complete(tally.features, tally.option))
    return all(features.get(name) == value for name, value in guard.when.items())


def _mine_again(library: GuardLibrary, burnins: Sequence[Burnin], min_support: int) -> list[Finding]:
    try:
        again = mine(burnins, min_support)
    except OptionlibError as error:
        return [Finding(Flaw.DOES_NOT_HOLD, f"the records cannot be mined: {error}")]
    ours, theirs = _keyed(library), _keyed(again)
    found = [
        Finding(Flaw.MISSING, f"{theirs[key].text}: the records give it, the library lacks it")
        for key in theirs.keys() - ours.keys()
    ]
    found += [
        Finding(Flaw.NOT_MINED, f"{ours[key].text}: mining these records does not give it")
        for key in ours.keys() - theirs.keys()
    ]
    if len(ours) < len(library.guards):
        found.append(Finding(Flaw.NOT_MINED, "the library lists a guard twice"))
    if again.certificate != library.certificate:
        found.append(Finding(Flaw.ORIGIN, "what the certificate says about its burn-ins is not what they are"))
    return sorted(found, key=lambda finding: finding.text)


def _keyed(library: GuardLibrary) -> dict[tuple[str, str, tuple[tuple[str, str], ...]], Guard]:
    return {(g.option, g.channel.value, tuple(sorted(g.when.items()))): g for g in library.guards}
