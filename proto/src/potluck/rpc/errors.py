"""The one error type that crosses Potluck's wires, and the only mapping between reasons and gRPC codes.

A `PotluckError` has a reason (a name of `potluck.common.v1.ErrorReason` without its prefix), a message that ends with
what to do about it, and string metadata. A server raises it and the interceptors send it as `google.rpc.Status` with
an `ErrorInfo`; a client turns a failed call back into it:

    raise PotluckError(Reason.UNKNOWN_GAME, f"no game {name!r}", cure="ask ListGames for the names", known="a, b")
    with typed_errors("env server 127.0.0.1:7001"):
        reply = await stub.ListGames(request)

API: `Reason`, `PotluckError(reason, message, cure="", **metadata)` with `.reason .message .cure .metadata .code
.status()`, `from_status(status)`, `from_rpc(exc, peer="")`, `typed_errors(peer="")`, `draining()`,
`too_large(size, limit)`, `DOMAIN`. Metadata `retry_after_s` also travels as google.rpc.RetryInfo; `.retry_after_s` is
its number.
"""

import contextlib
import re
from collections.abc import Iterator
from enum import StrEnum

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

DOMAIN = "potluck"
DETAILS_KEY = "grpc-status-details-bin"
# A status travels in HTTP/2 headers, which peers cap at 8 KiB.
MESSAGE_CHARS = 1500
VALUE_CHARS = 800
LONGEST_RETRY_S = 24 * 3600.0
"""A longer `retry_after_s` is no hint."""


class Reason(StrEnum):
    """Every `potluck.common.v1.ErrorReason`, by its name without the prefix."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INTERNAL = "INTERNAL"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    DRAINING = "DRAINING"
    OVERLOADED = "OVERLOADED"
    DEADLINE = "DEADLINE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    UNREACHABLE = "UNREACHABLE"
    PORT_IN_USE = "PORT_IN_USE"
    INSECURE = "INSECURE"
    UNKNOWN_GAME = "UNKNOWN_GAME"
    UNKNOWN_EPISODE = "UNKNOWN_EPISODE"
    EPISODE_EXISTS = "EPISODE_EXISTS"
    EPISODE_FINISHED = "EPISODE_FINISHED"
    LETTER_NOT_OFFERED = "LETTER_NOT_OFFERED"
    WRONG_AGENT = "WRONG_AGENT"
    ENGINE_CRASHED = "ENGINE_CRASHED"
    ENGINE_TIMEOUT = "ENGINE_TIMEOUT"
    UNKNOWN_BOUNDARY = "UNKNOWN_BOUNDARY"
    REPLAY_DIVERGED = "REPLAY_DIVERGED"
    EPISODE_LOST = "EPISODE_LOST"
    UNKNOWN_BACKBONE = "UNKNOWN_BACKBONE"
    UNKNOWN_ADAPTER = "UNKNOWN_ADAPTER"
    CORRUPT_UPLOAD = "CORRUPT_UPLOAD"
    WRONG_BASE = "WRONG_BASE"
    PROMPT_TOO_LONG = "PROMPT_TOO_LONG"
    LABELS_UNSUPPORTED = "LABELS_UNSUPPORTED"
    UNKNOWN_LEASE = "UNKNOWN_LEASE"
    UNSUPPORTED = "UNSUPPORTED"
    DIGEST_MISMATCH = "DIGEST_MISMATCH"
    UNKNOWN_RUN = "UNKNOWN_RUN"
    NEWER_SCHEMA = "NEWER_SCHEMA"
    UNKNOWN_AUDIT = "UNKNOWN_AUDIT"
    CANCELLED = "CANCELLED"


_C = grpc.StatusCode
CODES: dict[str, grpc.StatusCode] = {
    Reason.INVALID_ARGUMENT: _C.INVALID_ARGUMENT,
    Reason.INTERNAL: _C.INTERNAL,
    Reason.UNAUTHENTICATED: _C.UNAUTHENTICATED,
    Reason.DRAINING: _C.UNAVAILABLE,
    Reason.OVERLOADED: _C.RESOURCE_EXHAUSTED,
    Reason.DEADLINE: _C.DEADLINE_EXCEEDED,
    Reason.MESSAGE_TOO_LARGE: _C.RESOURCE_EXHAUSTED,
    Reason.UNREACHABLE: _C.UNAVAILABLE,
    Reason.PORT_IN_USE: _C.FAILED_PRECONDITION,
    Reason.INSECURE: _C.FAILED_PRECONDITION,
    Reason.UNKNOWN_GAME: _C.NOT_FOUND,
    Reason.UNKNOWN_EPISODE: _C.NOT_FOUND,
    Reason.EPISODE_EXISTS: _C.ALREADY_EXISTS,
    Reason.EPISODE_FINISHED: _C.FAILED_PRECONDITION,
    Reason.LETTER_NOT_OFFERED: _C.INVALID_ARGUMENT,
    Reason.WRONG_AGENT: _C.INVALID_ARGUMENT,
    # ABORTED, not UNAVAILABLE: the transport must not retry what only a new start can mend.
    Reason.ENGINE_CRASHED: _C.ABORTED,
    Reason.ENGINE_TIMEOUT: _C.ABORTED,
    Reason.UNKNOWN_BOUNDARY: _C.NOT_FOUND,
    Reason.REPLAY_DIVERGED: _C.FAILED_PRECONDITION,
    Reason.EPISODE_LOST: _C.ABORTED,
    Reason.UNKNOWN_BACKBONE: _C.NOT_FOUND,
    Reason.UNKNOWN_ADAPTER: _C.NOT_FOUND,
    Reason.CORRUPT_UPLOAD: _C.DATA_LOSS,
    Reason.WRONG_BASE: _C.FAILED_PRECONDITION,
    Reason.PROMPT_TOO_LONG: _C.INVALID_ARGUMENT,
    Reason.LABELS_UNSUPPORTED: _C.FAILED_PRECONDITION,
    Reason.UNKNOWN_LEASE: _C.NOT_FOUND,
    Reason.UNSUPPORTED: _C.UNIMPLEMENTED,
    Reason.DIGEST_MISMATCH: _C.DATA_LOSS,
    Reason.UNKNOWN_RUN: _C.NOT_FOUND,
    Reason.NEWER_SCHEMA: _C.FAILED_PRECONDITION,
    Reason.UNKNOWN_AUDIT: _C.NOT_FOUND,
    Reason.CANCELLED: _C.ABORTED,
}

# For failures without our ErrorInfo: the transport's own, or another server's.
_BARE: dict[grpc.StatusCode, tuple[Reason, str]] = {
    _C.UNAVAILABLE: (Reason.UNREACHABLE, "check that the server runs and that address, TLS and token are right"),
    _C.CANCELLED: (Reason.UNREACHABLE, "the other side ended the call; try again"),
    _C.DEADLINE_EXCEEDED: (Reason.DEADLINE, "allow more time, or look at what the server is busy with"),
    _C.RESOURCE_EXHAUSTED: (Reason.OVERLOADED, "try again later, or send less at once"),
    _C.UNAUTHENTICATED: (Reason.UNAUTHENTICATED, "set POTLUCK_TOKEN to the server's token"),
    _C.UNIMPLEMENTED: (Reason.UNSUPPORTED, "check that this is the right kind of server, of a fitting version"),
    _C.INVALID_ARGUMENT: (Reason.INVALID_ARGUMENT, ""),
}
# What grpc.aio leaves of a call that ended while its client wrote; the server's own status is lost (grpc/grpc#36066).
_ENDED_IN_A_WRITE = (_C.INTERNAL, "Internal error from Core")
_TOO_LARGE = re.compile(r"larger than max \((\d+) vs\.? (\d+)\)")


class PotluckError(Exception):
    """A failure with a reason that programs can act on and a message that tells people what to do."""

    def __init__(self, reason: str, message: str, cure: str = "", **metadata: object) -> None:
        self.reason = str(reason)
        self.cure = cure
        self.message = _sentence(message, cure)
        self.metadata = {key: str(value) for key, value in metadata.items()}
        super().__init__(self.message)

    @property
    def code(self) -> grpc.StatusCode:
        """The gRPC code that goes with the reason."""
        return CODES.get(self.reason, grpc.StatusCode.UNKNOWN)

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which the other side thinks that trying again makes sense; None where it says nothing."""
        try:
            seconds = float(self.metadata["retry_after_s"])
        except (KeyError, ValueError):
            return None
        return seconds if 0 <= seconds <= LONGEST_RETRY_S else None

    def status(self) -> Status:
        """The error as it travels."""
        info = ErrorInfo(reason=self.reason, domain=DOMAIN)
        for key, value in self.metadata.items():
            info.metadata[key] = _cut(value, VALUE_CHARS)
        detail = Any()
        detail.Pack(info)
        details = [detail]
        if (seconds := self.retry_after_s) is not None:
            hint = RetryInfo()
            hint.retry_delay.FromNanoseconds(round(seconds * 1e9))
            details.append(Any())
            details[-1].Pack(hint)
        number, _ = self.code.value
        return Status(code=number, message=_cut(self.message, MESSAGE_CHARS), details=details)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call __init__ with the message alone and fail in a worker's result queue.
        return _rebuild, (type(self), self.reason, self.message, self.cure, self.metadata)


def _rebuild(kind: type[PotluckError], reason: str, message: str, cure: str, metadata: dict[str, str]) -> PotluckError:
    error = kind.__new__(kind)
    PotluckError.__init__(error, reason, message, "", **metadata)
    error.cure = cure
    return error


def _sentence(message: str, cure: str) -> str:
    return f"{message}: {cure}" if cure else message


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def from_status(status: Status) -> PotluckError:
    """The error that a `google.rpc.Status` describes; one without our ErrorInfo keeps its code's closest reason."""
    info = ErrorInfo()
    for detail in status.details:
        if detail.Is(ErrorInfo.DESCRIPTOR) and detail.Unpack(info) and info.domain == DOMAIN:
            return _rebuild(PotluckError, info.reason, status.message, "", dict(info.metadata))
    return _bare(_code_of(status.code), status.message, "")


def from_rpc(error: grpc.RpcError, peer: str = "") -> PotluckError:
    """The error behind a failed call, sync or aio. `peer` names the other side in transport failures."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return PotluckError(Reason.INTERNAL, f"the call to {peer or 'the server'} failed")
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return from_status(Status.FromString(value))
    return _bare(error.code(), error.details() or "", peer)


@contextlib.contextmanager
def typed_errors(peer: str = "") -> Iterator[None]:
    """Turns failed calls inside the block into `PotluckError`."""
    try:
        yield
    except grpc.RpcError as error:
        raise from_rpc(error, peer) from error


def _bare(code: grpc.StatusCode, text: str, peer: str) -> PotluckError:
    where = f"{peer}: " if peer else ""
    if found := _TOO_LARGE.search(text):
        size, limit = found.groups()
        return too_large(int(size), int(limit), where)
    if (code, text) == _ENDED_IN_A_WRITE:
        message = f"{where}the call ended while it was written to, and its reason was lost"
        return PotluckError(Reason.UNREACHABLE, message, "try again, or look into the server's log", code=code.name)
    reason, cure = _BARE.get(code, (Reason.INTERNAL, "look into the server's log"))
    return PotluckError(reason, f"{where}{text or code.name}", cure, code=code.name)


def too_large(size: int, limit: int, where: str = "") -> PotluckError:
    """A message over the cap."""
    message = f"{where}a message of {size} bytes is over the cap of {limit} bytes"
    return PotluckError(Reason.MESSAGE_TOO_LARGE, message, "send less at once", size=size, limit=limit)


def draining() -> PotluckError:
    """The refusal of a server that is shutting down."""
    return PotluckError(Reason.DRAINING, "this server is shutting down", "use another, or try again later")


def _code_of(number: int) -> grpc.StatusCode:
    return next((code for code in grpc.StatusCode if code.value[0] == number), grpc.StatusCode.UNKNOWN)
