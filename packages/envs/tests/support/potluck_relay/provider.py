"""The plug-in's entry points."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from potluck_optionlib.game import SymbolicGame
from potluck_relay.faulty import FAULTY
from potluck_relay.game import SPEC, Relay

GUARDS = json.dumps(
    {"guards": [{"option": "fetch", "channel": "inferred", "when": {"hatch": "[0, 1]"}, "support": 30}]}
)
"""Do not fetch while the hatch is full."""
GUARDED = (SPEC.name, "faulty/guards_see_old_features")


class Provider:
    """Games by name."""

    def __init__(self, games: Mapping[str, type[Relay]]) -> None:
        self._games = games

    def names(self) -> Sequence[str]:
        return list(self._games)

    def make(self, name: str) -> SymbolicGame:
        if name not in self._games:
            raise KeyError(f"no game {name!r}; known: {', '.join(self._games)}")
        return self._games[name]()

    def guards(self, name: str) -> str:
        return GUARDS if name in GUARDED else ""


provider = Provider({SPEC.name: Relay})
faulty = Provider(FAULTY)
broken = object()
