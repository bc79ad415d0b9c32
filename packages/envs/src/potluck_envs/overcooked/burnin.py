"""Quick burn-in of a kitchen under the shipped contracts: the same rows as the game gives, several times as fast.

`OvercookedGame` tells burn-in everything about every step; burn-in only wants to know how options ended. `choices.py`
has what may be chosen and how it is judged, `routes.py` the ways to it; `apart.py` and `together.py` play. A test holds
rows equal to those of the game, and the engine's state equal after every single step, to `get_state_transition`, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from potluck_envs.overcooked.apart import Apart
from potluck_envs.overcooked.choices import Choices
from potluck_envs.overcooked.engine import Engine
from potluck_envs.overcooked.ground import ground
from potluck_envs.overcooked.layout import Layout
from potluck_envs.overcooked.options import World
from potluck_envs.overcooked.rounds import Watcher
from potluck_envs.overcooked.routes import Routes
from potluck_envs.overcooked.together import Together
from potluck_optionlib.burnin import Row
from potluck_optionlib.contracts import Contract


class KitchenBurnin:
    """Plays burn-in episodes on one layout."""

    def __init__(self, layout: Layout, contracts: Sequence[Contract[World]]) -> None:
        self._layout, self._ground = layout, ground(layout)
        self._choices = Choices(self._ground, contracts)
        self._routes = Routes(layout, max(contract.timeout for contract in contracts))
        self._engine = Engine(layout)

    def rows(self, seed: int, actor: int | None, horizon: int, watch: Watcher | None = None) -> list[Row]:
        """The rows of one episode; `watch` gets the engine's canonical state bytes after every primitive step."""
        parts = self._ground, self._choices, self._routes, self._engine
        kind = Together if actor is None and self._layout.same_room else Apart
        return kind(*parts, seed, actor, horizon, watch).play()
