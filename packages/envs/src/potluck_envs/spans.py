"""Spans of episodes, under the caller's span that a start or fork carries; nothing where it carries none."""

from __future__ import annotations

from opentelemetry.trace import Span, StatusCode

from potluck.env.v1 import env_service_pb2 as pb
from potluck.telemetry import names
from potluck.telemetry.context import open_span, parent_of
from potluck_envs.host import Kind, Result


class EpisodeSpan:
    """The span of one episode on this server."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @classmethod
    def begin(cls, command: pb.Command) -> EpisodeSpan | None:
        """Opens it."""
        parent = parent_of(command.trace)
        if parent is None:
            return None
        attributes: dict[str, str | int] = {names.EPISODE_ID: command.episode_id}
        if command.HasField("start"):
            attributes |= {names.GAME: command.start.game, names.SEED: str(command.start.seed)}
        else:
            attributes |= {names.BOUNDARY: command.fork.boundary}
        return cls(open_span(names.EPISODE, attributes, parent))

    def end(self, result: Result) -> None:
        """Closes it with the episode's end."""
        if result.kind is Kind.FINISHED:
            self._span.set_attribute(names.STEPS, result.steps)
            self._span.set_attribute(names.RETURN, result.team_return)
        else:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()

    def fail(self, reason: str) -> None:
        """Closes it where the episode was lost."""
        self._span.set_attribute(names.ERROR_TYPE, reason)
        self._span.set_status(StatusCode.ERROR)
        self._span.end()

    def abandon(self) -> None:
        """Closes it where the client went away."""
        self._span.end()
