"""Burn-in: uniform random play over the unguarded candidates, one record per finished execution.

Solo episodes (every partner a no-op, each seat in turn) tell who caused what; team episodes show what partners make
possible. The records and nothing else are what guards are mined from. The same game, seed and counts give the same
records: the file's digest is taken over their canonical bytes, not over the Parquet encoding.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from potluck_optionlib.contracts import canonical_json
from potluck_optionlib.errors import BurninFormatError
from potluck_optionlib.game import NOOP, SymbolicGame

SCHEMA_VERSION = 1
_SCHEMA = pa.schema(
    [
        ("episode", pa.int32()),
        ("solo", pa.bool_()),
        ("step", pa.int32()),
        ("agent", pa.int32()),
        ("option", pa.string()),
        ("target", pa.string()),
        ("features", pa.string()),
        ("outcome", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class BurninPlan:
    """How much to play."""

    solo_episodes: int = 200
    team_episodes: int = 200
    seed: int = 0
    horizon: int = 400


@dataclass(frozen=True, slots=True)
class Record:
    """One finished execution."""

    episode: int
    solo: bool
    step: int
    agent: int
    option: str
    target: str
    features: Mapping[str, str]
    """The declared read set at initiation."""
    outcome: str


@dataclass(frozen=True, slots=True)
class Burnin:
    """Records with where they came from."""

    game: str
    contracts_digest: str
    solo_only: tuple[str, ...]
    """Option types whose effects only solo records can attribute."""
    plan: BurninPlan
    records: tuple[Record, ...]

    @property
    def digest(self) -> str:
        """sha256 over the records and their origin."""
        sha = hashlib.sha256(canonical_json(self._head()))
        for record in self.records:
            sha.update(canonical_json(_row(record)))
        return sha.hexdigest()

    def _head(self) -> dict[str, object]:
        plan = self.plan
        return {
            "schema_version": SCHEMA_VERSION,
            "game": self.game,
            "contracts_digest": self.contracts_digest,
            "solo_only": list(self.solo_only),
            "plan": [plan.solo_episodes, plan.team_episodes, plan.seed, plan.horizon],
        }

    def save(self, path: Path) -> None:
        """Writes Parquet, aside and renamed."""
        rows = [_row(record) for record in self.records]
        columns = {name: [row[name] for row in rows] for name in _SCHEMA.names}
        meta = {"potluck": json.dumps({**self._head(), "digest": self.digest})}
        table = pa.table(columns, schema=_SCHEMA.with_metadata(meta))
        aside = path.with_name(path.name + ".part")
        pq.write_table(table, aside, compression="zstd")
        aside.replace(path)


def load(path: Path) -> Burnin:
    """Reads a burn-in file and checks that it is what was written."""
    try:
        table = pq.read_table(path)
        head = json.loads((table.schema.metadata or {})[b"potluck"])
        plan = BurninPlan(*head["plan"])
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise BurninFormatError(f"{path} is not a burn-in file. Make one with `potluck-optionlib burnin`.") from error
    if head["schema_version"] != SCHEMA_VERSION:
        raise BurninFormatError(f"{path} has schema version {head['schema_version']}, this program reads 1.")
    records = tuple(Record(**{**row, "features": json.loads(row["features"])}) for row in table.to_pylist())
    burnin = Burnin(head["game"], head["contracts_digest"], tuple(head["solo_only"]), plan, records)
    if burnin.digest != head["digest"]:
        raise BurninFormatError(f"{path} was changed after it was written. Run the burn-in again.")
    return burnin


def run(game: SymbolicGame, plan: BurninPlan, progress: Callable[[int, int], None] | None = None) -> Burnin:
    """Plays the plan; `progress` gets episodes done and in all."""
    records: list[Record] = []
    total = plan.solo_episodes + plan.team_episodes
    for episode in range(total):
        solo = episode < plan.solo_episodes
        actor = episode % game.spec.agents if solo else None
        records += _episode(game, plan, episode, actor)
        if progress is not None:
            progress(episode + 1, total)
    solo_only = tuple(sorted(game.solo_only))
    return Burnin(game.spec.name, game.contracts_digest, solo_only, plan, tuple(records))


def _episode(game: SymbolicGame, plan: BurninPlan, episode: int, actor: int | None) -> Sequence[Record]:
    seed = int.from_bytes(hashlib.sha256(f"{plan.seed}/{episode}".encode()).digest()[:8], "big")
    rng = random.Random(seed)
    game.reset(seed)
    records = []
    while game.steps < plan.horizon:
        for agent in sorted(game.idle(), key=lambda seat: seat == actor):
            if actor is not None and agent != actor:
                game.begin(agent, NOOP)
            else:
                game.begin(agent, rng.choice(game.candidates(agent)))
        for end in game.step().ended:
            instance = end.instance
            records.append(
                Record(
                    episode,
                    actor is not None,
                    end.start_step,
                    end.agent,
                    instance.option,
                    instance.target,
                    end.features,
                    end.outcome,
                )
            )
    return records


def _row(record: Record) -> dict[str, object]:
    return {
        "episode": record.episode,
        "solo": record.solo,
        "step": record.step,
        "agent": record.agent,
        "option": record.option,
        "target": record.target,
        "features": canonical_json(dict(record.features)).decode(),
        "outcome": record.outcome,
    }
