"""The trainer's errors. Every message says what happened and ends with what to do about it."""

from __future__ import annotations

from pathlib import Path


class TrainerError(Exception):
    """Base of all errors that a user can act on; the command line shows the message without a traceback."""


class ConfigError(TrainerError):
    """A config that cannot be used."""


class ServiceError(TrainerError):
    """A local service that did not start or died. `log` is where it wrote."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log

    def __str__(self) -> str:
        return f"{super().__str__()} (log: {self.log})" if self.log else super().__str__()


class WrongPolicyError(TrainerError):
    """A policy server answered with other weights than those asked for."""


class AgreementError(TrainerError):
    """Sampled and recomputed log-probabilities differ: the update would be wrong."""


class IsolationError(TrainerError):
    """A learner's step would move something that is not its own."""


class BackboneError(TrainerError):
    """A frozen base that cannot be fetched, verified or trained."""


class UpdateStopped(TrainerError):
    """An update that was given up on the way, because the run is being stopped; its round does not count."""


class RecordError(TrainerError):
    """A run folder that cannot be written or read."""


class DiskFullError(RecordError):
    """No space left while sealing; the data are kept in memory and sealed records are untouched."""


class NewerSchemaError(RecordError):
    """A run folder written by a newer version."""


class CheckpointError(RecordError):
    """A checkpoint that is missing or damaged."""


class NonFiniteError(TrainerError):
    """A NaN or infinity among returns, losses or gradients; the round is not used."""
