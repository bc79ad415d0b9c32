"""Guards as data: when an option instance is left out of a menu, and on which evidence.

A guard is a conjunction of equalities over an option's read set ("inferred") or a typed explicit failure that is
re-checked live at menu building ("explicit"). Its support is the number of burn-in executions that failed under it;
no execution succeeded. The certificate names the burn-in files, thresholds and contracts, and is part of the
library's digest: two libraries with one digest guard alike and for the same reasons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from potluck_optionlib.contracts import canonical_json
from potluck_optionlib.errors import ContractMismatchError, GuardFormatError

_VERDICTS = 4096
"""Verdicts that a library keeps at most."""


class Channel(StrEnum):
    """How a guard came about."""

    EXPLICIT = "explicit"
    INFERRED = "inferred"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Guard(_Frozen):
    """One reason to leave an option out."""

    option: str
    channel: Channel
    when: dict[str, str]
    """Equalities that must all hold; {"explicit": reason} in the explicit channel."""
    support: int
    """Executions that failed under it."""


class BurninRef(_Frozen):
    """A burn-in that the library was mined from."""

    game: str
    digest: str
    seed: int
    solo_episodes: int
    team_episodes: int
    records: int


class Certificate(_Frozen):
    """What the library rests on."""

    contracts_digest: str
    min_support: int
    max_literals: int
    burnins: tuple[BurninRef, ...]
    successes_under_guards: int = 0
    """Burn-in successes that the guards would have forbidden; anything but 0 is a defect."""


class GuardLibrary(_Frozen):
    """All guards of a game with their certificate."""

    schema_version: int = Field(default=1, ge=1, le=1)
    certificate: Certificate | None = None
    guards: tuple[Guard, ...] = ()

    @classmethod
    def parse(cls, text: str) -> GuardLibrary:
        """Reads the JSON form; "" is the library without guards."""
        if not text.strip():
            return cls()
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]["msg"]
            raise GuardFormatError(
                f"Not a guard library ({error.error_count()} problems, first: {first}). "
                "Mine it again with `potluck-optionlib mine`."
            ) from error

    def dump(self) -> str:
        """The JSON form, stable and readable."""
        return self.model_dump_json(indent=1) + "\n"

    def check(self, contracts_digest: str) -> None:
        """Raises where the library was mined against other contracts."""
        mined = self.certificate.contracts_digest if self.certificate else contracts_digest
        if mined != contracts_digest:
            raise ContractMismatchError(
                f"The guards were mined against contracts {mined[:12]}, the game has {contracts_digest[:12]}. "
                "Run burn-in and mining again."
            )

    @cached_property
    def digest(self) -> str:
        """sha256 of the library as data."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json"))).hexdigest()

    def library_digest(self, contracts_digest: str) -> str:
        """sha256 of contracts and guards together: what GameInfo calls the library."""
        return hashlib.sha256(f"{contracts_digest}\n{self.digest}\n".encode()).hexdigest()

    @cached_property
    def _index(self) -> dict[str, tuple[tuple[tuple[str, str], ...], ...]]:
        index: dict[str, list[tuple[tuple[str, str], ...]]] = {}
        for guard in self.guards:
            if guard.channel is Channel.INFERRED:
                index.setdefault(guard.option, []).append(tuple(sorted(guard.when.items())))
        return {option: tuple(conjunctions) for option, conjunctions in index.items()}

    @cached_property
    def _verdicts(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], bool]:
        return {}

    def forbids(self, option: str, features: Mapping[str, str]) -> bool:
        """Does an inferred guard match? Verdicts are kept: read sets are small and come again."""
        key = (option, tuple(features.items()))
        verdict = self._verdicts.get(key)
        if verdict is None:
            if len(self._verdicts) >= _VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[key] = self._matches(option, features)
        return verdict

    def _matches(self, option: str, features: Mapping[str, str]) -> bool:
        for conjunction in self._index.get(option, ()):
            for name, value in conjunction:
                if features.get(name) != value:
                    break
            else:
                return True
        return False

    def guards_option(self, option: str) -> bool:
        """Is there any inferred guard of this option? (Spares the features of the others.)"""
        return option in self._index


NO_GUARDS = GuardLibrary()
