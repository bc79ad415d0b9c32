"""Games by name, from the entry points of the group `potluck.games`.

An entry point's name is the part before the slash in its games' names (`overcooked` for
`overcooked/forced_coordination`), so that asking for a game imports its own plug-in only. An entry point's object is a
`potluck_optionlib.game.GameProvider`. A plug-in that cannot be loaded is named in errors and stops nobody else's games.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.errors import BrokenPlugin, GameUnavailable, UnknownGame
from potluck_envs.native import NativeGame
from potluck_optionlib.errors import OptionlibError
from potluck_optionlib.game import GameProvider, SymbolicGame
from potluck_optionlib.guards import GuardLibrary

GROUP = "potluck.games"
METHODS = ("names", "make", "guards")

log = logging.getLogger(__name__)


def agent_name(seat: int) -> str:
    """The wire name of a seat."""
    return f"agent_{seat}"


@dataclass(frozen=True)
class Library:
    """A game with its guards: what episodes are made of."""

    name: str
    provider: GameProvider
    guards: GuardLibrary
    digest: str

    def make(self) -> SymbolicGame:
        """A fresh game."""
        return self.provider.make(self.name)

    @cached_property
    def info(self) -> pb.GameInfo:
        """The game as the server lists it."""
        game = self.make()
        spec = game.spec
        interfaces = [pb.INTERFACE_MENU, pb.INTERFACE_JSON]
        if isinstance(game, NativeGame):
            interfaces.append(pb.INTERFACE_NATIVE)
        return pb.GameInfo(
            name=self.name,
            agents=[agent_name(seat) for seat in range(spec.agents)],
            default_horizon=spec.default_horizon,
            library_digest=self.digest,
            engine=spec.engine,
            dynamics=spec.dynamics,
            reward_unit=spec.reward_unit,
            options=spec.options,
            interfaces=interfaces,
        )


class Registry:
    """The games of all installed plug-ins."""

    def __init__(self) -> None:
        self._points = {point.name: point for point in entry_points(group=GROUP)}
        self._providers: dict[str, GameProvider] = {}
        self._broken: dict[str, BrokenPlugin] = {}
        self._libraries: dict[str, Library] = {}

    def names(self) -> list[str]:
        """Every game, by name; plug-ins that cannot be loaded are left out and logged."""
        found: list[str] = []
        for plugin in self._points:
            try:
                found += self._provider(plugin).names()
            except BrokenPlugin as error:
                log.warning("%s", error)
        return sorted(found)

    def broken(self) -> list[BrokenPlugin]:
        """Plug-ins that were tried and cannot be loaded."""
        return list(self._broken.values())

    def library(self, name: str) -> Library:
        """The library of a game. Raises UnknownGame, BrokenPlugin, or GameUnavailable."""
        if name not in self._libraries:
            self._libraries[name] = self._load(name)
        return self._libraries[name]

    def _load(self, name: str) -> Library:
        plugin = name.partition("/")[0]
        provider = self._provider(plugin) if plugin in self._points else None
        if provider is None or name not in _names(plugin, provider):
            raise UnknownGame(name, self.names(), ", ".join(self._broken))
        try:
            guards = GuardLibrary.parse(provider.guards(name))
            contracts = provider.make(name).contracts_digest
            guards.check(contracts)
        except GameUnavailable:
            raise
        except OptionlibError as error:
            raise BrokenPlugin(plugin, f"the guards of {name} do not fit: {error}") from error
        except Exception as error:
            raise BrokenPlugin(plugin, f"{name} cannot be made: {type(error).__name__}: {error}") from error
        return Library(name, provider, guards, guards.library_digest(contracts))

    def _provider(self, plugin: str) -> GameProvider:
        if plugin in self._broken:
            raise self._broken[plugin]
        if plugin not in self._providers:
            try:
                self._providers[plugin] = _import(self._points[plugin])
            except BrokenPlugin as error:
                self._broken[plugin] = error
                raise
        return self._providers[plugin]


def _import(point: EntryPoint) -> GameProvider:
    where = f"{point.name!r} ({point.value})"
    try:
        provider = point.load()
    except Exception as error:
        raise BrokenPlugin(where, f"{type(error).__name__}: {error}") from error
    missing = [method for method in METHODS if not callable(getattr(provider, method, None))]
    if missing:
        raise BrokenPlugin(where, f"its object has no {', '.join(missing)}")
    _names(where, provider)
    loaded: GameProvider = provider
    return loaded


def _names(plugin: str, provider: GameProvider) -> Sequence[str]:
    try:
        return provider.names()
    except Exception as error:
        raise BrokenPlugin(plugin, f"listing its games failed: {type(error).__name__}: {error}") from error
