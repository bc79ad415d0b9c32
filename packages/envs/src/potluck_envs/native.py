"""What a game adds to be played by primitive actions, the engine's own interface.

A `SymbolicGame` that also has `primitives` offers INTERFACE_NATIVE. Its `begin` then accepts these instances, each of
which ends with the step it was begun for. The menu of a decision is the primitives in their fixed order: letters mean
the same action at every step, as in the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from potluck_optionlib.game import Instance

OPTION = "primitive"
"""Option name of a primitive's instance; its target is the engine's name of the action."""


@runtime_checkable
class NativeGame(Protocol):
    """The added part of the protocol."""

    def primitives(self, agent: int) -> Sequence[Instance]:
        """Every primitive action of a seat, always the same, as `Instance("primitive", name)`."""
        ...
