"""Everything that the policy server refuses, one class per reason; each message says what to do about it."""

from collections.abc import Iterable

from potluck.rpc.errors import PotluckError, Reason


class PolicyServerError(PotluckError):
    """Root of this package's errors."""


class InvalidRequest(PolicyServerError):
    """A field's value is not acceptable."""

    def __init__(self, field: str, message: str, cure: str = "") -> None:
        super().__init__(Reason.INVALID_ARGUMENT, f"{field}: {message}", cure, field=field)


class UnknownBackbone(PolicyServerError):
    """No such backbone, or one that cannot be loaded."""

    def __init__(self, name: str, known: Iterable[str], why: str = "") -> None:
        names = ", ".join(sorted(known))
        because = f": {why}" if why else ""
        cure = f"name one of {names}, or a folder or hub id (owner/name) of a Hugging Face causal language model"
        super().__init__(Reason.UNKNOWN_BACKBONE, f"no backbone {name!r}{because}", cure, backbone=name, known=names)


class UnknownAdapter(PolicyServerError):
    """No adapter of this digest is held. Nothing was computed."""

    def __init__(self, digest: str) -> None:
        message = f"no adapter {digest!r} is held here; nothing was computed"
        cure = "publish it (again) with PublishAdapter, and keep a lease on it while it is in use"
        super().__init__(Reason.UNKNOWN_ADAPTER, message, cure, adapter=digest)


class CorruptUpload(PolicyServerError):
    """The upload's bytes are not the announced ones, or cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.CORRUPT_UPLOAD, message, "nothing was stored; upload the adapter again")


class WrongBase(PolicyServerError):
    """The adapter, or the request, is about another base than the one served."""

    def __init__(self, wanted: str, served: str) -> None:
        message = f"this server serves the base {served!r}, not {wanted!r}"
        cure = "ask Describe for the base's digest, and train on the base that FetchBackbone sends"
        super().__init__(Reason.WRONG_BASE, message, cure, wanted=wanted, served=served)


class WrongWeights(PolicyServerError):
    """Weights that would answer, or did, are not the ones that were asked for. No such answer leaves the server."""

    def __init__(self, message: str, wanted: str, found: str) -> None:
        cure = "publish the adapter again; if it happens once more, restart the server and report it"
        super().__init__(Reason.DIGEST_MISMATCH, message, cure, wanted=wanted, found=found)


class BrokenBase(PolicyServerError):
    """A model folder that does not hold the whole model, or not in a type that is served."""

    def __init__(self, name: str, why: str, cure: str) -> None:
        super().__init__(Reason.UNKNOWN_BACKBONE, f"the base {name!r} cannot be served: {why}", cure, backbone=name)


class PromptTooLong(PolicyServerError):
    """The prompt does not fit into the context."""

    def __init__(self, size: int, limit: int) -> None:
        message = f"the prompt has {size} tokens, the context holds {limit}"
        cure = "shorten the observation, the memory or the menu, or serve a backbone with a longer context"
        super().__init__(Reason.PROMPT_TOO_LONG, message, cure, size=size, limit=limit)


class LabelsUnsupported(PolicyServerError):
    """The backbone cannot name this menu's options under the label scheme."""

    def __init__(self, message: str, cure: str = "ask Describe for the label schemes that this backbone reads") -> None:
        super().__init__(Reason.LABELS_UNSUPPORTED, message, cure)


class UnknownLease(PolicyServerError):
    """No such lease: released, expired, or never given."""

    def __init__(self, lease: str) -> None:
        message = f"no lease {lease!r}: it was released, has expired, or was never given"
        super().__init__(Reason.UNKNOWN_LEASE, message, "hold the adapter again, with a longer ttl_s", lease=lease)


class Unsupported(PolicyServerError):
    """The backbone has no such ability."""

    def __init__(self, backbone: str, ability: str) -> None:
        message = f"the backbone {backbone!r} cannot {ability}"
        super().__init__(Reason.UNSUPPORTED, message, "serve a causal language model for that", backbone=backbone)


class Overloaded(PolicyServerError):
    """The queue or the adapter memory is full."""

    def __init__(self, message: str, cure: str, **metadata: object) -> None:
        super().__init__(Reason.OVERLOADED, message, cure, **metadata)


class QueueFull(Overloaded):
    """There is no place in the queue; nothing was computed."""

    def __init__(self, waiting: int, limit: int, retry_after_s: float) -> None:
        message = f"{waiting} decisions wait already, the queue holds {limit}"
        cure = f"try again in {retry_after_s:.2g} s, or start more policy servers"
        super().__init__(message, cure, retry_after_s=f"{retry_after_s:.3f}", waiting=waiting, limit=limit)


class BatchCancelled(PolicyServerError):
    """The client has taken a batch of its stream back."""

    def __init__(self, request_id: str) -> None:
        super().__init__(Reason.CANCELLED, f"batch {request_id!r} was cancelled", "", request_id=request_id)


class DeadlinePassed(PolicyServerError):
    """The client's deadline passed before the work began."""

    def __init__(self) -> None:
        message = "the deadline passed while the request waited; nothing was computed"
        super().__init__(Reason.DEADLINE, message, "allow more time, or send fewer decisions at once")
