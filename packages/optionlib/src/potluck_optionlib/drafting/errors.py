"""What can go wrong around a draft that is not the drafted module's own fault."""

from __future__ import annotations

from potluck_optionlib.errors import OptionlibError


class DraftError(OptionlibError):
    """Base of the drafting errors."""


class MissingClientError(DraftError):
    """The client library of a provider is not installed."""


class MissingKeyError(DraftError):
    """No key is set; nothing was sent."""


class SourceError(DraftError):
    """A file of game source cannot be sent."""


class DraftFolderError(DraftError):
    """The output folder holds another draft, or was changed by hand."""


class SandboxError(DraftError):
    """The child process could not be set up on this machine."""


class EndpointError(DraftError):
    """The model endpoint did not answer as asked. `status` is the HTTP status, 0 where there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after: str | None = None
        """The endpoint's `retry-after` header, where it sent one."""


class AuthError(EndpointError):
    """401 or 403: the key is refused."""


class UnknownModelError(EndpointError):
    """404: no such model or no such address."""


class RefusedRequestError(EndpointError):
    """Any other 4xx: the request itself is not accepted."""


class RedirectedError(EndpointError):
    """3xx: the endpoint points elsewhere; nothing was sent there."""


class RateLimitedError(EndpointError):
    """429 to the last attempt, or a wait longer than allowed."""


class ServerFailedError(EndpointError):
    """5xx to the last attempt."""


class UnreachableError(EndpointError):
    """No connection, or no reply in time."""


class MalformedReplyError(EndpointError):
    """What came back is no reply, or a reply that holds no message."""
