"""What can go wrong while playing, beyond what servers refuse by themselves."""

from potluck.rpc.errors import PotluckError, Reason


class EpisodeLost(PotluckError):
    """An episode failed at every attempt. Nothing of it counts."""

    def __init__(self, episode_id: str, attempts: int, last: PotluckError) -> None:
        super().__init__(
            Reason.EPISODE_LOST,
            f"episode {episode_id} failed at each of {attempts} attempts, lastly with {last.reason} ({last.message})",
            "look into the env server's log",
            episode_id=episode_id,
            attempts=attempts,
            last=last.reason,
        )


class DigestMismatch(PotluckError):
    """A reply was computed with something else than was asked for. It is never used."""

    def __init__(self, what: str, want: str, got: str, cure: str) -> None:
        message = f"{what} is {_short(got)}, not {_short(want)}"
        super().__init__(Reason.DIGEST_MISMATCH, message, cure, want=want, got=got)


def stalled(address: str, waiting: int, timeout_s: float) -> PotluckError:
    """An env server did not answer a wave in time."""
    return PotluckError(
        Reason.DEADLINE,
        f"env server {address} left {waiting} commands unanswered for {timeout_s:g} s",
        "look for a hung engine in its log, or allow a longer wave",
        address=address,
        waiting=waiting,
    )


def _short(digest: str) -> str:
    return (digest[:16] + "…" if len(digest) > 16 else digest) or "empty"
