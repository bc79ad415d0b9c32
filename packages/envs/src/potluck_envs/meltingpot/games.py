"""Melting Pot's games by name.

`meltingpot/<substrate>` is a game; `meltingpot/zap/<substrate>` offers zapping besides, and
`meltingpot/stochastic/<substrate>` ends by the substrate's own rule, at step 1000 or later. Both may stand together, in
this order. Options and guards do not depend on how an episode ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from potluck_envs.meltingpot.substrates import SUBSTRATES
from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.contracts import Contract

PREFIX, ZAP, STOCHASTIC = "meltingpot/", "zap/", "stochastic/"
KINDS = ("", ZAP, STOCHASTIC, ZAP + STOCHASTIC)


class MeltingPotProvider:
    """The entry point `meltingpot` of the group `potluck.games`. Listing games loads no engine."""

    def names(self) -> Sequence[str]:
        """Every game."""
        return [f"{PREFIX}{kind}{substrate}" for kind in KINDS for substrate in SUBSTRATES]

    def make(self, name: str) -> ContractGame:
        """A fresh game. Raises KeyError for an unknown one and EngineUnavailable without Melting Pot's package."""
        world, contracts = self._world(name)
        return ContractGame(world, contracts(world))

    def with_contracts(self, name: str, build: Callable[[Any], Sequence[Contract[Any]]]) -> ContractGame:
        """A fresh game under other contracts: `build` gets the world (clean_up.CleanUp or harvest.Harvest)."""
        world, _ = self._world(name)
        return ContractGame(world, build(world))

    def guards(self, name: str) -> str:
        """The shipped guard library, or ""."""
        self._known(name)
        kind, substrate = _parts(name)
        file = ("zap_" if ZAP in kind else "") + substrate + ".json"
        resource = files(__package__).joinpath("guards", file)
        return resource.read_text("utf-8") if resource.is_file() else ""

    def _world(self, name: str) -> tuple[Any, Callable[[Any], Sequence[Contract[Any]]]]:
        self._known(name)
        from potluck_envs.meltingpot import clean_up, harvest

        kind, substrate = _parts(name)
        options = {"zapping": ZAP in kind, "stochastic_ending": STOCHASTIC in kind}
        if substrate == clean_up.SUBSTRATE:
            return clean_up.CleanUp(**options), clean_up.contracts
        return harvest.Harvest(**options), harvest.contracts

    def _known(self, name: str) -> None:
        if name not in self.names():
            raise KeyError(f"no game {name!r}; known: {', '.join(self.names())}")


def _parts(name: str) -> tuple[str, str]:
    """The kind, such as "zap/", and the substrate."""
    kind, _, substrate = name.removeprefix(PREFIX).rpartition("/")
    return (f"{kind}/" if kind else ""), substrate
