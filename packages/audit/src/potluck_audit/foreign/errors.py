"""What goes wrong with foreign logs and with the models that judge them."""

from __future__ import annotations

from pathlib import Path

from potluck_audit.errors import AuditError


class MalformedLog(AuditError):
    """A log file, or one field of it, is not of the format."""

    def __init__(self, file: Path, field: str, why: str) -> None:
        super().__init__(
            "INVALID_ARGUMENT",
            f"{file.name}: {field} {why}",
            "correct the file or take it out of the folder",
            file=str(file),
            field=field,
        )


class NoLogs(AuditError):
    """A folder without logs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            "INVALID_ARGUMENT",
            f"there are no .json files under {folder}",
            "give a folder of Who&When logs, such as one with Algorithm-Generated/1.json in it",
            field="folder",
        )


class JudgeUnavailable(AuditError):
    """No model can be asked: a client library, a key or the endpoint is missing, or it refuses everybody."""

    def __init__(self, field: str, message: str, cure: str, reason: str = "INVALID_ARGUMENT") -> None:
        super().__init__(reason, message, cure, field=field)


class RequestRefused(AuditError):
    """The model does not take this one request, such as a log that is longer than its context."""

    def __init__(self, message: str) -> None:
        super().__init__("INVALID_ARGUMENT", message, "use a model with a longer context, or a judge that shows less")
