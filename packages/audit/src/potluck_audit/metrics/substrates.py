"""What commons games tell in their events, and the constants that a measure needs.

Measures of commons read these events of the env contract (`Event`), in the order in which they happened:

    kind    agent        object       cell (x, y)          meaning
    eat     who ate      apple        the apple's          an apple is consumed; individual consumption counts it
    grow    (empty)      apple        the apple's          an apple appears; those of the start in the first step
    clean   who cleaned  (any)        the river cell       a dirty cell becomes clean: one event a cell
    dirt    (empty)      (any)        the river cell       a cell becomes dirty; those of the start in the first step
    zap     who zapped   the victim   (any)                the victim is out for the substrate's time

`reward` may stay 0: consumption is counted, so that a shared reward does not make everybody equal.
"""

from __future__ import annotations

from typing import NamedTuple

from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.records import Episode

COMMONS_KINDS = frozenset({"eat", "grow", "clean", "dirt", "zap"})


class Substrate(NamedTuple):
    """Constants of a game; None where unknown, and what rests on it is undefined."""

    zap_out: int | None = None
    """Steps that a zapped agent is out."""
    river_cells: int | None = None
    """River cells that can be dirty."""
    growth_limit: float | None = None
    """Dirt fraction from which no apple grows."""


UNKNOWN = Substrate()
SUBSTRATES = {
    "clean_up": Substrate(zap_out=50, river_cells=147, growth_limit=0.4),
    "commons_harvest__open": Substrate(zap_out=4),
    "commons_harvest__closed": Substrate(zap_out=4),
    "commons_harvest__partnership": Substrate(zap_out=4),
}
"""By the game's name after the slash: constants of Melting Pot 2.4.1's own maps."""


def substrate_of(episodes: EpisodeSet) -> Substrate:
    return SUBSTRATES.get(episodes.game.rsplit("/", 1)[-1], UNKNOWN)


def is_commons(episodes: EpisodeSet) -> bool:
    """Whether any episode tells of apples, dirt or zaps, or the game is known to have them."""
    known = substrate_of(episodes) is not UNKNOWN
    return known or any(event.kind in COMMONS_KINDS for e in episodes.episodes for _, event in e.events)


def told(episodes: EpisodeSet) -> list[Episode]:
    """Episodes whose steps were recorded: of the others nothing is known, which is not nothing eaten."""
    return [e for e in episodes.episodes if e.progress.steps]
