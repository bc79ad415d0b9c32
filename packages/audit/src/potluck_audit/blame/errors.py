"""What cannot be blamed, and why."""

from __future__ import annotations

from potluck.rpc.errors import Reason
from potluck_audit.errors import AuditError


class NotAFailure(AuditError):
    """The episode reached the threshold: there is no failure to explain."""

    def __init__(self, episode: str, team_return: float, threshold: float) -> None:
        super().__init__(
            Reason.INVALID_ARGUMENT,
            f"episode {episode} is no failure: its return {team_return:g} is not below the threshold {threshold:g}",
            "choose an episode that failed, or state a higher threshold",
            field="episode_id",
        )


class NoReturn(AuditError):
    """The episode's return is not a number: neither failure nor success can be told."""

    def __init__(self, episode: str) -> None:
        super().__init__(
            Reason.INVALID_ARGUMENT,
            f"episode {episode} has no return, so that it can neither have failed nor succeeded",
            "choose an episode whose rewards are numbers",
            field="episode_id",
        )


class NeverActed(AuditError):
    """An agent without decisions: its credit has nothing to be shared among."""

    def __init__(self, agent: str, episode: str) -> None:
        super().__init__(
            Reason.INVALID_ARGUMENT,
            f"{agent} made no decision in episode {episode}, so that its credit has no decision to go to",
            "leave it out, or choose an episode in which it is asked",
            field="agent",
        )


class CannotFork(AuditError):
    """The game cannot be continued from the middle."""

    def __init__(self, game: str, why: str) -> None:
        super().__init__(
            Reason.UNSUPPORTED,
            f"{game} cannot be forked ({why}), and every branch begins with a fork",
            "audit a game that passes `potluck-envs check`",
        )


class OutOfBudget(Exception):
    """More branches were wanted than the budget allows; a search answers with `undecided`."""
