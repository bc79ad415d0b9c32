"""A run folder: made once, resumed from its last commit, written by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from potluck.rpc.errors import PotluckError
from potluck_trainer.checkpoints import CheckpointStore
from potluck_trainer.config import RunConfig, training_identity
from potluck_trainer.config_file import load_json
from potluck_trainer.errors import ConfigError, RecordError, ServiceError
from potluck_trainer.records.reader import check_version, read_lines
from potluck_trainer.records.schema import SCHEMA_VERSION, TABLES
from potluck_trainer.records.writer import append_line, disk_errors, write_atomic

DISTRIBUTIONS = (
    "potluck-trainer", "potluck-proto", "numpy", "torch", "transformers", "peft", "pyarrow", "safetensors",
)  # fmt: skip


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = CheckpointStore(path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def begun(self) -> bool:
        """Whether there is a run in it."""
        return (self.path / "config.json").exists()

    def refuse_begun(self) -> None:
        """A new run takes no folder that holds one."""
        if self.begun:
            raise ConfigError(f"{self.path} holds a run; go on with --resume {self.path}, or choose another --name")

    @classmethod
    def create(cls, config: RunConfig, facts: dict[str, Any]) -> RunFolder:
        """A new run. Refuses a folder that holds one."""
        path = config.run_dir
        run = cls(path)
        run.refuse_begun()
        path.mkdir(parents=True, exist_ok=True)
        run._write_json("versions.json", {"schema_version": SCHEMA_VERSION, "packages": _packages()} | facts)
        run._write_json("config.json", config.resolved().model_dump(mode="json"))
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run, of a version that can be read."""
        run = cls(path)
        if not run.begun:
            raise RecordError(f"there is no run in {path}; give a folder that `potluck train` wrote")
        check_version(int(run.facts().get("schema_version", 0)), path)
        return run

    def config(self) -> RunConfig:
        return load_json(self.path / "config.json", RunConfig)

    def facts(self) -> dict[str, Any]:
        """`versions.json`: schema version, package versions, what was served."""
        path = self.path / "versions.json"
        try:
            data: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise RecordError(f"cannot read {path}: {error}; restore it from a copy") from error
        return data

    def check_resumable(self, config: RunConfig) -> None:
        """Settings that decide what is learned must be those of the interrupted run."""
        then, now = training_identity(self.config()), training_identity(config)
        changed = sorted(key for key in now if then.get(key) != now[key])
        if changed:
            raise ConfigError(
                f"{self.path} was trained with other settings of {', '.join(changed)}; resume without changing them, "
                "or start a new run with --name"
            )

    def roll_back(self, rounds: int) -> None:
        """Throws away whatever an interrupted round left after `rounds` committed ones."""
        for table in TABLES:
            folder = self.path / table
            for path in folder.glob("round-*.parquet") if folder.is_dir() else ():
                if int(path.stem.removeprefix("round-")) >= rounds:
                    path.unlink()
            for path in folder.glob(".*.tmp") if folder.is_dir() else ():
                path.unlink()
        kept = [line for line in read_lines(self.path / "metrics.jsonl") if line["round"] < rounds]
        write_atomic(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept).encode())
        lines = [json.dumps(line) + "\n" for line in read_lines(self.path / "checkpoints.jsonl")]
        write_atomic(self.path / "checkpoints.jsonl", "".join(lines).encode())
        for folder in (self.path / "optimisers").glob("round-*"):
            if int(folder.name.removeprefix("round-")) > rounds:
                shutil.rmtree(folder, ignore_errors=True)

    def add_metrics(self, line: dict[str, Any]) -> None:
        append_line(self.path / "metrics.jsonl", json.dumps(line))

    def metrics(self) -> list[dict[str, Any]]:
        return list(read_lines(self.path / "metrics.jsonl"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process from writing into the folder; the lock ends with the process."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise RecordError(f"another process is writing {self.path}; wait for it or stop it") from None
        finally:
            os.close(descriptor)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Locks the folder of a run that is about to begin. If none begins in it, a folder that was not there before is
        gone again; what failed services wrote is kept in a temporary folder, and the error says where."""
        there = self.path.exists()
        with self.locked():
            try:
                yield
            except BaseException as error:
                if not there and not (self.path / "checkpoints.jsonl").exists():
                    self._vanish(error)
                raise

    def _vanish(self, error: BaseException) -> None:
        logs = self.path / "logs"
        if isinstance(error, ServiceError | PotluckError) and logs.is_dir():
            kept = Path(tempfile.mkdtemp(prefix="potluck-failed-start-")) / "logs"
            shutil.copytree(logs, kept)
            if isinstance(error, ServiceError) and error.log is not None:
                error.log = kept / error.log.name
            else:
                error.add_note(f"the services' logs are in {kept}")
        shutil.rmtree(self.path, ignore_errors=True)

    def _write_json(self, name: str, data: dict[str, Any]) -> None:
        write_atomic(self.path / name, (json.dumps(data, indent=2, sort_keys=True) + "\n").encode())


def _packages() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
