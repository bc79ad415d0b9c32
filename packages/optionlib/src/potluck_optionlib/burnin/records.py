"""Records of finished executions: rows while playing, columns afterwards, tallies for whoever mines them.

A `Ledger` takes rows as plain tuples and interns what repeats, so that a million records cost a few integers each.
Feature sets are kept as canonical JSON text: whatever a game gave is stored as it was given, and `features.py` refuses
what is not a string; nothing is replaced on the way.

The digest of a burn-in is taken over its head and one sha256 an episode, each over the canonical lines of that
episode's records; how episodes were cut into files or shared among workers does not show in it.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from potluck_optionlib.burnin.plan import BurninPlan
from potluck_optionlib.contracts import canonical_json
from potluck_optionlib.errors import BurninFormatError, ContractMismatchError
from potluck_optionlib.game import Instance

SCHEMA_VERSION = 2
_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("episode", pa.int32()),
        ("solo", pa.bool_()),
        ("step", pa.int32()),
        ("agent", pa.int32()),
        ("option", _WORD),
        ("target", _WORD),
        ("features", _WORD),
        ("outcome", _WORD),
        ("own_changed", pa.bool_()),
        ("changed", pa.bool_()),
    ]
)
_WIDTH = 5
"""Whole numbers that a ledger keeps of a record."""
_SEEN = 1 << 14
_BOOLS: tuple[bool | None, ...] = (None, False, True)


class Row(NamedTuple):
    """One finished execution, as a game reports it."""

    step: int
    """Primitive step at which it began."""
    agent: int
    instance: Instance
    features: Mapping[str, str]
    """The declared read set at initiation."""
    outcome: str
    """success | effect_fail | timeout | explicit:<reason> | raised:<ExceptionType>"""
    own_changed: bool | None
    """Did the actor's own facts change around the last primitive? None = not told."""
    changed: bool | None
    """Did any fact that the effect predicate sees change around it? None = not told."""


class Record(NamedTuple):
    """One finished execution with its place in the burn-in."""

    episode: int
    solo: bool
    step: int
    agent: int
    option: str
    target: str
    features: Mapping[str, str]
    outcome: str
    own_changed: bool | None = None
    changed: bool | None = None


class Tally(NamedTuple):
    """How often executions of one kind ended alike."""

    option: str
    solo: bool
    features: Mapping[str, str]
    outcome: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    own_changed: bool | None = None
    changed: bool | None = None


class Ledger:
    """Collects the records of episodes, in the order in which they are played."""

    def __init__(self) -> None:
        self._numbers = array("i")
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._seen: dict[tuple[Any, ...], int] = {}
        self._alive: list[tuple[Instance, Mapping[str, str]]] = []

    def __len__(self) -> int:
        return len(self._numbers) // _WIDTH

    def add(self, episode: int, solo: bool, rows: Sequence[Row]) -> None:
        """All records of one episode."""
        seen, numbers = self._seen, self._numbers
        for row in rows:
            step, agent, instance, features, outcome, own, changed = row
            key = (id(instance), id(features), outcome, own, changed)
            kind = seen.get(key)
            if kind is None:
                kind = self._kind(key, row)
            numbers.extend((episode, solo, step, agent, kind))

    def _kind(self, seen_as: tuple[Any, ...], row: Row) -> int:
        """Finds rows that are alike by the identity of their parts first, which is quick where games share them."""
        if len(self._alive) >= _SEEN:
            self._seen.clear()
            self._alive.clear()
        instance, features = row.instance, row.features
        key = (instance.option, instance.target, _frozen(features), row.outcome, row.own_changed, row.changed)
        kind = self._seen[seen_as] = self._kinds.setdefault(key, len(self._kinds))
        self._alive.append((instance, features))
        return kind

    def table(self) -> pa.Table:
        """The columns so far, with `SCHEMA`."""
        numbers = np.array(self._numbers, np.int32).reshape(-1, _WIDTH)
        kinds = list(self._kinds)
        of_kind = numbers[:, 4]
        columns = {
            "episode": pa.array(numbers[:, 0]),
            "solo": pa.array(numbers[:, 1].astype(bool)),
            "step": pa.array(numbers[:, 2]),
            "agent": pa.array(numbers[:, 3]),
            "option": _words([kind[0] for kind in kinds], of_kind),
            "target": _words([kind[1] for kind in kinds], of_kind),
            "features": _words(
                [kind[2] if isinstance(kind[2], str) else features_text(dict(kind[2])) for kind in kinds], of_kind
            ),
            "outcome": _words([kind[3] for kind in kinds], of_kind),
            "own_changed": pa.array([kind[4] for kind in kinds], pa.bool_()).take(pa.array(of_kind)),
            "changed": pa.array([kind[5] for kind in kinds], pa.bool_()).take(pa.array(of_kind)),
        }
        return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True, eq=False)
class Burnin:
    """Records with where they came from. Two are equal when their digests are."""

    game: str
    contracts_digest: str
    solo_only: tuple[str, ...]
    """Option types whose effects only solo records can attribute."""
    plan: BurninPlan
    table: pa.Table
    """Columns as in `SCHEMA`, in the order of play."""
    digests: Sequence[bytes] | None = field(default=None, repr=False)
    """sha256 of each episode's records, where they have just been checked."""

    @classmethod
    def of(
        cls,
        game: str,
        contracts_digest: str,
        solo_only: tuple[str, ...],
        plan: BurninPlan,
        records: Sequence[Record],
    ) -> Burnin:
        """From records one by one, ordered by episode."""
        ledger = Ledger()
        for r in records:
            row = Row(r.step, r.agent, Instance(r.option, r.target), r.features, r.outcome, r.own_changed, r.changed)
            ledger.add(r.episode, r.solo, [row])
        return cls(game, contracts_digest, solo_only, plan, ledger.table())

    @property
    def records(self) -> int:
        """How many."""
        return int(self.table.num_rows)

    @cached_property
    def digest(self) -> str:
        """sha256 over the records and their origin; independent of files, workers and interruptions."""
        sha = hashlib.sha256(canonical_json(self.head()))
        digests = self.digests
        for digest in episode_digests(self.table, 0, self.plan.episodes) if digests is None else digests:
            sha.update(digest)
        return sha.hexdigest()

    def head(self) -> dict[str, Any]:
        """Where the records came from."""
        return {
            "schema_version": SCHEMA_VERSION,
            "game": self.game,
            "contracts_digest": self.contracts_digest,
            "solo_only": list(self.solo_only),
            "plan": self.plan.data(),
        }

    def check(self, contracts_digest: str) -> None:
        """Raises where the records were made under other contracts."""
        if self.contracts_digest != contracts_digest:
            raise ContractMismatchError(
                f"The burn-in of {self.game} was played under contracts {self.contracts_digest[:12]}, the game has "
                f"{contracts_digest[:12]}. Run the burn-in again."
            )

    def rows(self) -> Iterator[Record]:
        """The records one by one; for looking, not for counting."""
        columns = [self.table.column(name).to_pylist() for name in SCHEMA.names]
        for values in zip(*columns, strict=True):
            episode, solo, step, agent, option, target, features, *rest = values
            yield Record(episode, solo, step, agent, option, target, json.loads(features), *rest)

    def tallies(self) -> Sequence[Tally]:
        """Records counted by option, solo, features, outcome and change, sorted: all that guards are mined from."""
        return self._tallies

    @cached_property
    def _tallies(self) -> tuple[Tally, ...]:
        keys = [Column.of(self.table, name) for name in ("option", "solo", "features", "outcome")]
        keys += [Column.of(self.table, name) for name in ("own_changed", "changed")]
        values, _, counts = combine(keys)
        ordered = sorted(zip(values, counts.tolist(), strict=True), key=lambda item: [str(part) for part in item[0]])
        return tuple(
            Tally(option, solo, json.loads(features), outcome, count, own, changed)
            for (option, solo, features, outcome, own, changed), count in ordered
        )

    @cached_property
    def raised(self) -> Mapping[tuple[str, str], int]:
        """Executions whose option raised, by option and exception type."""
        found: dict[tuple[str, str], int] = {}
        for tally in self.tallies():
            if tally.outcome.startswith(RAISED):
                key = (tally.option, tally.outcome.removeprefix(RAISED))
                found[key] = found.get(key, 0) + tally.count
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Burnin) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


RAISED = "raised:"


class Column(NamedTuple):
    """One column as small integers and what they stand for."""

    codes: npt.NDArray[np.int64]
    values: Sequence[Any]

    @classmethod
    def of(cls, table: pa.Table, name: str) -> Column:
        """A column of strings or booleans."""
        if pa.types.is_dictionary(table.schema.field(name).type):
            whole = table.column(name).unify_dictionaries().combine_chunks()
            if isinstance(whole, pa.ChunkedArray):
                whole = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
            return cls(whole.indices.to_numpy().astype(np.int64), whole.dictionary.to_pylist())
        column = table.column(name)
        known = column.fill_null(False).to_numpy().astype(np.int64) + 1
        return cls(np.where(column.is_null().to_numpy(), 0, known), _BOOLS)


def combine(columns: Sequence[Column]) -> tuple[list[tuple[Any, ...]], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct combinations of values, the combination of each row, and how many rows each has."""
    codes = np.zeros(len(columns[0].codes), np.int64)
    for column in columns:
        codes = codes * max(1, len(column.values)) + column.codes
    _, first, of_row, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    values = [tuple(column.values[column.codes[row]] for column in columns) for row in first.tolist()]
    return values, of_row, counts


def episode_digests(table: pa.Table, first: int, end: int) -> list[bytes]:
    """sha256 of each episode's records in order, for episodes [first, end).

    Every row goes into exactly one of them: raises BurninFormatError where rows lie outside or are not in the order of
    play, because such rows would count without showing in the digest.
    """
    episodes = table.column("episode").to_numpy()
    if episodes.size and (episodes[0] < first or episodes[-1] >= end or np.any(np.diff(episodes) < 0)):
        raise BurninFormatError(
            f"burn-in records: the episode column does not go from {first} to {end - 1} in the order of play. "
            "Run the burn-in again."
        )
    names = ("option", "target", "features", "outcome", "own_changed", "changed", "solo")
    values, of_row, _ = combine([Column.of(table, name) for name in names])
    texts = [canonical_json([*v[:2], json.loads(v[2]), *v[3:]]).decode() for v in values]
    steps, agents = (table.column(name).to_numpy().tolist() for name in ("step", "agent"))
    lines = [f"{s},{a},{texts[k]}\n" for s, a, k in zip(steps, agents, of_row.tolist(), strict=True)]
    bounds = np.searchsorted(episodes, np.arange(first, end + 1)).tolist()
    return [
        hashlib.sha256(f"{episode}\n{''.join(lines[start:stop])}".encode()).digest()
        for episode, start, stop in zip(range(first, end), bounds[:-1], bounds[1:], strict=True)
    ]


def _frozen(features: Mapping[str, Any]) -> tuple[tuple[str, Any], ...] | str:
    items = tuple(features.items())
    try:
        hash(items)
    except TypeError:
        return features_text(features)
    return items


def features_text(features: Mapping[str, Any]) -> str:
    """Canonical JSON of a feature set, with anything that JSON cannot hold spelt as it prints."""
    return json.dumps(features, sort_keys=True, separators=(",", ":"), default=lambda value: {"repr": repr(value)})


def _words(values: Sequence[str], of_row: npt.NDArray[np.int32]) -> pa.DictionaryArray:
    """A dictionary column from one value per kind and the kind of each row."""
    distinct = {value: i for i, value in enumerate(dict.fromkeys(values))}
    codes = np.array([distinct[value] for value in values], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes[of_row]), pa.array(list(distinct), pa.string()))
