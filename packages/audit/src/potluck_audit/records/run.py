"""Loads a run folder: sealed Parquet parts by column name, refusing newer schemas and naming broken files."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from potluck_audit.errors import CorruptRecords, NewerSchema, UnknownRun
from potluck_audit.records.episode import DecisionRow, Episode

SCHEMA_VERSION = 1
TRAIN = "train"

_EPISODE_COLUMNS = (
    "schema_version", "set", "round", "episode_id", "member", "game", "library_digest", "dynamics", "seed",
    "sample_seed", "horizon", "steps", "team_return", "agent_returns", "policies", "digest", "recording",
    "step_records", "attempts", "reward_unit", "temperature", "label_scheme", "backbone", "base_digest",
)  # fmt: skip
_HEAVY = frozenset({"recording", "step_records"})
_OPTIONAL = _HEAVY | {"reward_unit", "temperature", "label_scheme", "backbone", "base_digest"}
_DECISION_COLUMNS = (
    "schema_version", "set", "episode_id", "agent", "decision", "step", "options", "targets", "letter", "index",
    "probabilities", "outcome", "duration",
)  # fmt: skip


@dataclass(frozen=True)
class RunRecords:
    """What a run folder holds."""

    path: Path
    config: Mapping[str, Any]
    versions: Mapping[str, Any]
    episodes: tuple[Episode, ...]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def greedy(self) -> bool:
        """Whether evaluations took the most probable item instead of a sample."""
        evaluation = self.config.get("evaluation")
        return bool(evaluation.get("greedy")) if isinstance(evaluation, dict) else False

    @property
    def sets(self) -> tuple[str, ...]:
        """Episode sets: training, the trained team, the frozen one, others by name, solo tests."""
        first = {name: place for place, name in enumerate((TRAIN, "eval/trained", "eval/frozen"))}
        names = {e.set for e in self.episodes}
        return tuple(sorted(names, key=lambda n: (first.get(n, len(first)), n.startswith("eval/solo/"), n)))

    def of(self, name: str) -> tuple[Episode, ...]:
        """The episodes of one set, by round, seed and member."""
        found = [e for e in self.episodes if e.set == name]
        return tuple(sorted(found, key=lambda e: (e.round, e.seed, e.member)))


def load_run(path: Path | str, sets: Sequence[str] = ()) -> RunRecords:
    """Reads a run. Training episodes come without steps and recordings: an audit needs only their returns."""
    root = Path(path).expanduser().resolve()
    if not (root / "episodes").is_dir():
        raise UnknownRun(f"there is no run at {path}", "give a folder that `potluck train` or `potluck eval` wrote")
    wanted = set(sets)
    decisions = _decisions(root)
    episodes = tuple(
        _episode(row, decisions)
        for row in _rows(root / "episodes", _EPISODE_COLUMNS)
        if not wanted or row["set"] in wanted or row["set"] == TRAIN
    )
    known = {e.set for e in episodes}
    if missing := wanted - known:
        raise UnknownRun(
            f"run {root.name} has no episode set {', '.join(sorted(missing))}",
            f"it has {', '.join(sorted(_set_names(root))) or 'none'}",
        )
    if not episodes:
        raise UnknownRun(f"run {root.name} holds no episodes yet", "wait for the first round to be sealed")
    return RunRecords(root, _json(root / "config.json"), _json(root / "versions.json"), episodes)


def _set_names(root: Path) -> set[str]:
    return {row["set"] for row in _rows(root / "episodes", ("schema_version", "set"))}


def training_rounds(path: Path) -> Iterator[tuple[int, list[Episode]]]:
    """Training rounds in order with what happened in them, one part at a time; step records name no positions."""
    for part in parts(path / "episodes"):
        if part.name.startswith("round-"):
            rows = [row for table in read_part(part, _EPISODE_COLUMNS) for row in table.to_pylist()]
            if rows:
                yield rows[0]["round"], [_episode(row, {}) for row in rows]


def parts(folder: Path) -> list[Path]:
    """Sealed parts of a records folder, by name."""
    return sorted(p for p in folder.glob("*.parquet") if not p.name.startswith(".")) if folder.is_dir() else []


def _rows(folder: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for part in parts(folder):
        heavy = not part.name.startswith("round-")
        for table in read_part(part, [c for c in columns if heavy or c not in _HEAVY]):
            yield from table.to_pylist()


def read_part(part: Path, columns: Sequence[str], optional: Collection[str] = _OPTIONAL) -> Iterable[pa.Table]:
    """The part's table with those of the columns that it has; only optional ones may lack. Refuses newer schemas."""
    try:
        with pq.ParquetFile(part) as file:
            present = set(file.schema_arrow.names)
            if "schema_version" in present and file.metadata.num_rows:
                newest = max(file.read(["schema_version"]).column(0).to_pylist())
                if newest > SCHEMA_VERSION:
                    raise NewerSchema(part, newest, SCHEMA_VERSION)
            if missing := set(columns) - present - set(optional):
                raise CorruptRecords(part, f"it lacks the column {', '.join(sorted(missing))}")
            return [file.read([c for c in columns if c in present])]
    except (pa.ArrowException, OSError) as broken:
        raise CorruptRecords(part, type(broken).__name__) from broken


def _episode(row: Mapping[str, Any], decisions: Mapping[tuple[str, str], Sequence[DecisionRow]]) -> Episode:
    team_return = row["team_return"]
    return Episode(
        set=row["set"],
        round=row["round"],
        episode_id=row["episode_id"],
        member=row["member"],
        game=row["game"],
        library_digest=row["library_digest"],
        dynamics=row["dynamics"],
        seed=row["seed"],
        sample_seed=row["sample_seed"],
        horizon=row["horizon"],
        steps=row["steps"],
        team_return=team_return if team_return is not None and math.isfinite(team_return) else None,
        agent_returns=tuple(row["agent_returns"] or ()),
        policies=json.loads(row["policies"]),
        digest=row["digest"],
        recording=row.get("recording") or b"",
        step_records=row.get("step_records") or b"",
        attempts=row["attempts"],
        reward_unit=row.get("reward_unit") or "reward",
        temperature=row.get("temperature"),
        label_scheme=row.get("label_scheme") or "",
        backbone=row.get("backbone") or "",
        base_digest=row.get("base_digest") or "",
        decisions=decisions.get((row["set"], row["episode_id"]), ()),
    )


def _decisions(root: Path) -> dict[tuple[str, str], list[DecisionRow]]:
    """Rows of the evaluation sets by (set, episode)."""
    found: dict[tuple[str, str], list[DecisionRow]] = {}
    for part in parts(root / "decisions"):
        if part.name.startswith("round-"):
            continue
        for table in read_part(part, _DECISION_COLUMNS):
            for row in table.to_pylist():
                chosen = row["index"]
                found.setdefault((row["set"], row["episode_id"]), []).append(
                    DecisionRow(
                        episode_id=row["episode_id"],
                        agent=row["agent"],
                        decision=row["decision"],
                        step=row["step"],
                        option=row["options"][chosen],
                        target=row["targets"][chosen],
                        letter=row["letter"],
                        probabilities=tuple(row["probabilities"] or ()),
                        outcome=row["outcome"] or "",
                        duration=row["duration"] or 0,
                    )
                )
    return found


def _json(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        loaded = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as broken:
        raise CorruptRecords(file, type(broken).__name__) from broken
    return loaded if isinstance(loaded, dict) else {}
