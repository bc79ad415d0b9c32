"""The substrates that are games here, and what their engine must be told about them."""

from __future__ import annotations

from dataclasses import dataclass

from potluck_envs.errors import UnknownGame

ENGINE = "dm-meltingpot 2.4.1"
AGENTS = 7


@dataclass(frozen=True, slots=True)
class Substrate:
    """One substrate of Melting Pot."""

    name: str
    """Name of its configuration in Melting Pot."""
    horizon: int
    """Steps of an episode unless asked otherwise: those of paper 1."""
    actions: tuple[str, ...]
    """Names of the configuration's actions, in its order."""
    agents: int = AGENTS


_MOVES = ("NOOP", "FORWARD", "BACKWARD", "STEP_LEFT", "STEP_RIGHT", "TURN_LEFT", "TURN_RIGHT")

SUBSTRATES = {
    substrate.name: substrate
    for substrate in (
        Substrate("clean_up", 150, (*_MOVES, "FIRE_ZAP", "FIRE_CLEAN")),
        Substrate("commons_harvest__open", 400, (*_MOVES, "FIRE_ZAP")),
    )
}


def substrate(name: str) -> Substrate:
    """By name. Raises UnknownGame."""
    if name not in SUBSTRATES:
        raise UnknownGame(name, list(SUBSTRATES))
    return SUBSTRATES[name]
