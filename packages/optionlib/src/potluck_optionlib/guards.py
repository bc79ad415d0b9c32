"""Guards as data: when an option instance is left out of a menu, and on which evidence.

A guard is a conjunction of equalities over an option's read set ("inferred") or a typed explicit failure that is
re-checked live at menu building ("explicit"). Its support is the number of burn-in executions that failed under it,
told apart by burn-in and setting; no execution succeeded. With the library's head (burn-ins by digest, thresholds,
contracts) that is its certificate.

Two digests name a library. `digest` is over the whole file, which carries it, so that an edit by hand shows.
`rules_digest` is over what the guards forbid and nothing else: libraries mined from different burn-ins that came to the
same guards play alike, so it is the one that recordings carry (through `library_digest`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from potluck_optionlib.contracts import canonical_json
from potluck_optionlib.errors import ContractMismatchError, GuardEditedError, GuardFormatError

SCHEMA_VERSION = 2

_UNREADABLE = "Not a guard library ({}). Mine it again with `potluck-optionlib mine` or `remine`."
_VERDICTS = 4096
"""Verdicts that a library keeps at most."""


class Channel(StrEnum):
    """How a guard came about."""

    EXPLICIT = "explicit"
    INFERRED = "inferred"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Support(_Frozen):
    """A guard's support in one burn-in."""

    burnin: str
    """Digest of the burn-in."""
    solo: int
    """Failures in solo episodes."""
    team: int
    """Failures with all seats playing."""
    timeouts: int
    """How many of both were time-outs."""


class Guard(_Frozen):
    """One reason to leave an option out."""

    option: str
    channel: Channel
    when: dict[str, str]
    """Equalities that must all hold; {"explicit": reason} in the explicit channel."""
    support: int
    """Executions that failed under it."""
    supports: tuple[Support, ...] = ()
    """The same by burn-in; a burn-in without any is left out."""

    @property
    def text(self) -> str:
        """How reports name it."""
        return f"{self.option} when " + " & ".join(f"{name} = {value}" for name, value in self.when.items())


class BurninRef(_Frozen):
    """A burn-in that the library was mined from."""

    game: str
    digest: str
    seed: int
    solo_episodes: int
    team_episodes: int
    horizon: int = 400
    records: int
    raised: int = 0
    """Executions that raised: no evidence for anything."""
    incomplete: int = 0
    """Executions with a missing or NaN feature: they back no literal on it."""


class Certificate(_Frozen):
    """What the library rests on."""

    contracts_digest: str
    min_support: int
    max_literals: int
    burnins: tuple[BurninRef, ...]


class GuardLibrary(_Frozen):
    """All guards of a game with their certificate."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    certificate: Certificate | None = None
    guards: tuple[Guard, ...] = ()

    @classmethod
    def parse(cls, text: str, *, check_digest: bool = True) -> GuardLibrary:
        """Reads the JSON form; "" is the library without guards: what a provider says that ships none, never a file.

        Guards without a certificate are somebody's own and need no digest. `check_digest=False` is for whoever mines
        the library again and only wants to know how. Raises GuardFormatError for what is no library of this version
        and GuardEditedError for a mined one that is not as it was written.
        """
        if not text.strip():
            return cls()
        try:
            data = json.loads(text)
            if not isinstance(data, dict):
                raise ValueError("it is not a JSON object")
            written = data.pop("digest", "")
            if not isinstance(written, str):
                raise ValueError(f"digest must be text, not {written!r}")
            if data.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
                raise ValueError(f"schema version {data['schema_version']}, this program reads {SCHEMA_VERSION}")
            library = cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            problem = f"{error.error_count()} problems, first: {where}: {first['msg']}"
            raise GuardFormatError(_UNREADABLE.format(problem)) from error
        except (ValueError, RecursionError) as error:
            raise GuardFormatError(_UNREADABLE.format(error)) from error
        if check_digest and (written or library.certificate is not None) and written != library.digest:
            raise GuardEditedError(
                f"The guard library was changed after it was mined (its digest says {written[:12] or 'nothing'}, its "
                f"content is {library.digest[:12]}). Take the original back, or mine it again with "
                "`potluck-optionlib remine`; guards of your own go into a library without a certificate."
            )
        return library

    def dump(self) -> str:
        """The JSON form, stable and readable, with its digest."""
        return json.dumps({"digest": self.digest, **self.model_dump(mode="json")}, indent=1) + "\n"

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
        """sha256 of the library as data, evidence included."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json"))).hexdigest()

    @cached_property
    def rules_digest(self) -> str:
        """sha256 of what the guards forbid, whatever the evidence and order."""
        rules = sorted((guard.option, guard.channel.value, sorted(guard.when.items())) for guard in self.guards)
        return hashlib.sha256(canonical_json(rules)).hexdigest()

    def library_digest(self, contracts_digest: str) -> str:
        """sha256 of contracts and guards together, as far as they decide menus: what GameInfo calls the library."""
        return hashlib.sha256(f"{contracts_digest}\n{self.rules_digest}\n".encode()).hexdigest()

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
