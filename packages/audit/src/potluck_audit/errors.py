"""The errors of an audit: each names the reason on the wire and ends with what to do."""

from __future__ import annotations

from pathlib import Path

from potluck.rpc.errors import PotluckError


class AuditError(PotluckError):
    """Anything that an audit refuses."""


class UnknownRun(AuditError):
    """No run folder, or no such episode set in it."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__("UNKNOWN_RUN", message, cure)


class NewerSchema(AuditError):
    """The run was written by a newer Potluck."""

    def __init__(self, file: Path, found: int, known: int) -> None:
        super().__init__(
            "NEWER_SCHEMA",
            f"{file.name} has schema {found} and this audit reads up to {known}",
            "upgrade potluck-audit",
            file=file.name,
        )


class CorruptRecords(AuditError):
    """A file of the run cannot be read."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            "INVALID_ARGUMENT",
            f"{file.parent.name}/{file.name} cannot be read ({why})",
            "restore the file from a copy, or move it out of the run folder to audit the rest",
            field="run",
            file=file.name,
        )


class UnknownAudit(AuditError):
    """No audit of this name."""

    def __init__(self, audit_id: str) -> None:
        super().__init__("UNKNOWN_AUDIT", f"there is no audit {audit_id!r} here", "start one with StartAudit")


class InvalidRequest(AuditError):
    """A field that cannot be acted on."""

    def __init__(self, field: str, message: str, cure: str) -> None:
        super().__init__("INVALID_ARGUMENT", message, cure, field=field)


class Unsupported(AuditError):
    """Something this audit cannot do."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__("UNSUPPORTED", message, cure)


class Diverged(AuditError):
    """A counterfactual does not rest on the recorded episodes."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__("REPLAY_DIVERGED", message, cure)


class CannotWrite(AuditError):
    """The results find no room."""

    def __init__(self, run: Path, why: str) -> None:
        super().__init__(
            "INTERNAL",
            f"the results of {run.name} cannot be written ({why})",
            "make room or give write access, and audit again; the run's records are untouched",
        )
