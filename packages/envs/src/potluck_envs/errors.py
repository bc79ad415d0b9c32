"""What can go wrong with games and episodes, each with its reason on the wire.

`EnvError` is the root; messages end with what to do. Nothing here maps to gRPC: `potluck.rpc.errors` does.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from potluck.rpc.errors import PotluckError, Reason


class EnvError(PotluckError):
    """Root of this package's errors."""


class UnknownGame(EnvError):
    """No plug-in offers the game."""

    def __init__(self, name: str, known: Collection[str], broken: str = "") -> None:
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        note = f" (plug-ins that cannot be loaded: {broken})" if broken else ""
        cure = f"{hint}`potluck-envs list` shows the {len(known)} games offered here{note}"
        super().__init__(Reason.UNKNOWN_GAME, f"no game {name!r}", cure, name=name, known=_names(known))


class BrokenPlugin(EnvError):
    """An installed plug-in cannot be loaded or breaks the protocol."""

    def __init__(self, plugin: str, why: str) -> None:
        cure = "repair or uninstall it; the games of other plug-ins are not affected"
        super().__init__(Reason.INTERNAL, f"the games plug-in {plugin} is broken: {why}", cure, plugin=plugin)


class GameUnavailable(EnvError):
    """A plug-in's game that this machine cannot run, though nothing is wrong with the plug-in."""


class InvalidField(EnvError):
    """A field of a command has an unacceptable value."""

    def __init__(self, field: str, why: str, cure: str) -> None:
        super().__init__(Reason.INVALID_ARGUMENT, f"{field}: {why}", cure, field=field)


class UnknownEpisode(EnvError):
    """The stream has no such episode."""

    def __init__(self, episode: str) -> None:
        cure = "episodes live on the stream that started them; start or fork it first"
        super().__init__(Reason.UNKNOWN_EPISODE, f"no episode {episode!r} on this stream", cure, episode=episode)


class EpisodeExists(EnvError):
    """The id is taken."""

    def __init__(self, episode: str) -> None:
        cure = "choose an id that is new on this stream"
        super().__init__(Reason.EPISODE_EXISTS, f"episode {episode!r} exists already", cure, episode=episode)


class EpisodeFinished(EnvError):
    """The episode is over."""

    def __init__(self, episode: str) -> None:
        cure = "start a new episode, or fork this one from one of its boundaries"
        super().__init__(Reason.EPISODE_FINISHED, f"episode {episode!r} has ended", cure, episode=episode)


class LetterNotOffered(EnvError):
    """A letter outside the menu."""

    def __init__(self, agent: str, letter: str, offered: Collection[str]) -> None:
        letters = "".join(offered)
        message = f"{agent} was not offered {letter!r}"
        super().__init__(Reason.LETTER_NOT_OFFERED, message, f"choose one of {letters}", agent=agent, offered=letters)


class WrongAgent(EnvError):
    """A choice for an agent with nothing to decide, a second one, or a missing one."""

    def __init__(self, why: str, deciding: Collection[str]) -> None:
        cure = f"send exactly one choice for each of {', '.join(deciding)}"
        super().__init__(Reason.WRONG_AGENT, why, cure, deciding=_names(deciding))


class UnknownBoundary(EnvError):
    """Nothing to fork from there."""

    def __init__(self, boundary: int, reached: int) -> None:
        message = f"no decision boundary {boundary}"
        super().__init__(Reason.UNKNOWN_BOUNDARY, message, f"boundaries 0 to {reached} exist", reached=reached)


class ReplayDiverged(EnvError):
    """A recording does not lead to where it says."""

    def __init__(self, why: str, **metadata: object) -> None:
        cure = "replay it with the versions of game and option library that it was recorded with"
        super().__init__(Reason.REPLAY_DIVERGED, why, cure, **metadata)


class EngineCrashed(EnvError):
    """The engine died or raised."""

    def __init__(self, why: str, **metadata: object) -> None:
        cure = "start the episode again with the same seed"
        super().__init__(Reason.ENGINE_CRASHED, why, cure, **metadata)


class EngineTimeout(EnvError):
    """The engine did not answer in time."""

    def __init__(self, seconds: float) -> None:
        cure = "start the episode again with the same seed, or serve with a longer --timeout"
        message = f"the engine did not answer within {seconds:g} s and was ended"
        super().__init__(Reason.ENGINE_TIMEOUT, message, cure, seconds=f"{seconds:g}")


class EngineBuildTimeout(EngineTimeout):
    """The engine was not built in time."""

    def __init__(self, seconds: float) -> None:
        cure = "start the episode again when the machine is less busy, or serve with a longer --build-timeout"
        message = f"the engine was not built within {seconds:g} s"
        EnvError.__init__(self, Reason.ENGINE_TIMEOUT, message, cure, seconds=f"{seconds:g}")


def _names(names: Collection[str]) -> str:
    return ", ".join(names)
