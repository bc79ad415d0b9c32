"""The entry point of games that are worlds with contracts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.contracts import Contract
from potluck_optionlib.names import unknown_game
from potluck_optionlib.shipped import Folder, shipped
from potluck_optionlib.world import World


class Games:
    """An entry point of the group `potluck.games` for games that are worlds with contracts."""

    def __init__(
        self,
        worlds: Mapping[str, Callable[[], World]],
        contracts: Callable[[Any], Sequence[Contract[Any]]],
        guards: Folder | None = None,
    ) -> None:
        """`worlds` by full name; `guards`: folder that holds "<part after the slash>.json" where a library ships."""
        self._worlds, self._contracts, self._guards = worlds, contracts, guards

    def names(self) -> Sequence[str]:
        """Full names."""
        return list(self._worlds)

    def make(self, name: str) -> ContractGame:
        """A fresh game. Raises KeyError with the known names for an unknown one."""
        return self.with_contracts(name, self._contracts)

    def with_contracts(self, name: str, build: Callable[[Any], Sequence[Contract[Any]]]) -> ContractGame:
        """A fresh game under other contracts: `build` gets the world."""
        if name not in self._worlds:
            raise unknown_game(name, self.names())
        world = self._worlds[name]()
        return ContractGame(world, build(world))

    def guards(self, name: str) -> str:
        """The shipped guard library, or "" where there is no file. Raises GuardFormatError for an empty one."""
        return shipped(self._guards, name.partition("/")[2]) if self._guards is not None else ""
