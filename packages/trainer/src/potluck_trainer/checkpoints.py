"""Checkpoints: adapters in PEFT folders named by digest, and one line per round that makes them count.

    adapters/<digest>/adapter_config.json, adapter_model.safetensors
    optimisers/round-000012/<agent>.bin
    checkpoints.jsonl          {"round": 12, "adapters": …, "optimisers": …, "rng": …}

The line is the round's commit: everything it names, and the round's sealed records, are on disk before it is written.
Whatever has no line belongs to an interrupted round and is thrown away whole. All randomness derives from the run's
seed and the number of the next round, which is therefore the whole state of the RNG.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from potluck.play import adapter_digest
from potluck_trainer.errors import CheckpointError
from potluck_trainer.learners.base import Adapter, Team
from potluck_trainer.records.reader import check_version, read_lines
from potluck_trainer.records.schema import SCHEMA_VERSION
from potluck_trainer.records.writer import append_line, write_atomic

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
KEPT_OPTIMISERS = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `round` rounds."""

    round: int
    base_digest: str
    adapters: dict[str, str]
    """Agent -> digest."""
    optimisers: dict[str, str]
    """Agent -> sha256 of its file."""
    rng: dict[str, int]
    validation: float | None = None
    """Mean return on the validation seeds, where it was measured."""
    schema_version: int = SCHEMA_VERSION
    extra: dict[str, Any] = field(default_factory=dict)


class CheckpointStore:
    """The checkpoints of one run folder."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._lines = run_dir / "checkpoints.jsonl"

    def save(self, team: Team, base_digest: str, round_number: int, seed: int, validation: float | None) -> Checkpoint:
        """Commits the state after `round_number` rounds."""
        adapters = {agent: self.save_adapter(team.export(agent)) for agent in team.agents}
        optimisers = {}
        for agent in team.agents:
            state = team.optimiser_state(agent)
            optimisers[agent] = hashlib.sha256(state).hexdigest()
            write_atomic(self._optimiser(round_number, agent), state)
        rng = {"seed": seed, "next_round": round_number}
        checkpoint = Checkpoint(round_number, base_digest, adapters, optimisers, rng, validation)
        append_line(self._lines, json.dumps(asdict(checkpoint)))
        self._prune()
        return checkpoint

    def save_adapter(self, adapter: Adapter) -> str:
        """Writes an adapter's folder; one that is there already has the same bytes."""
        folder = self._run_dir / "adapters" / adapter.digest
        if not (folder / WEIGHTS_NAME).exists():
            write_atomic(folder / CONFIG_NAME, adapter.config_json.encode())
            write_atomic(folder / WEIGHTS_NAME, adapter.weights)
        return adapter.digest

    def load_adapter(self, agent: str, digest: str, base_digest: str) -> Adapter:
        """An adapter of the run, checked against its name."""
        return read_adapter(self._run_dir / "adapters" / digest, agent, base_digest)

    def all(self) -> list[Checkpoint]:
        """All commits, oldest first."""
        checkpoints = []
        for line in read_lines(self._lines):
            check_version(line.get("schema_version", 0), self._lines)
            try:
                checkpoints.append(Checkpoint(**line))
            except TypeError as error:
                raise CheckpointError(f"{self._lines} holds a line that is no checkpoint: {error}") from error
        return checkpoints

    def last(self) -> Checkpoint:
        checkpoints = self.all()
        if not checkpoints:
            raise CheckpointError(
                f"{self._run_dir} has no checkpoint; give a folder that `potluck train` wrote, or delete it"
            )
        return checkpoints[-1]

    def best(self) -> Checkpoint:
        """The one with the highest validation return (the latest among equals), or the last without any."""
        judged = [checkpoint for checkpoint in self.all() if checkpoint.validation is not None]
        if not judged:
            return self.last()
        return max(judged, key=lambda checkpoint: (checkpoint.validation or 0.0, checkpoint.round))

    def restore(self, team: Team, checkpoint: Checkpoint) -> None:
        """Puts the learners back to where they were."""
        for agent in team.agents:
            adapter = self.load_adapter(agent, checkpoint.adapters[agent], checkpoint.base_digest)
            team.load_adapter(agent, adapter.config_json, adapter.weights)
            path = self._optimiser(checkpoint.round, agent)
            try:
                state = path.read_bytes()
            except OSError as error:
                raise CheckpointError(f"{path} is missing; only the last rounds can be resumed from") from error
            if hashlib.sha256(state).hexdigest() != checkpoint.optimisers[agent]:
                raise CheckpointError(f"{path} is damaged; delete the last line of {self._lines} to go one round back")
            team.load_optimiser_state(agent, state)

    def _optimiser(self, round_number: int, agent: str) -> Path:
        return self._run_dir / "optimisers" / f"round-{round_number:06d}" / f"{agent}.bin"

    def _prune(self) -> None:
        folders = sorted((self._run_dir / "optimisers").glob("round-*"))
        for folder in folders[:-KEPT_OPTIMISERS]:
            shutil.rmtree(folder, ignore_errors=True)


def read_adapter(folder: Path, agent: str, base_digest: str) -> Adapter:
    """An adapter folder whose name is its digest, or the agent's."""
    try:
        config_json = (folder / CONFIG_NAME).read_text()
        weights = (folder / WEIGHTS_NAME).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{folder} holds no adapter; expected {CONFIG_NAME} and {WEIGHTS_NAME}") from error
    found = adapter_digest(base_digest, config_json, hashlib.sha256(weights).hexdigest())
    if folder.name not in (found, agent):
        raise CheckpointError(f"{folder} holds adapter {found[:16]}… for this base; restore the folder from a copy")
    return Adapter(agent, base_digest, config_json, weights)
