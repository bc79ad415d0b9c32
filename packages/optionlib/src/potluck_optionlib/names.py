"""What to say to a name that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_FEW = 5


def unknown_game(name: str, names: Sequence[str]) -> KeyError:
    """The error of a provider that has no game of this name: all names if they are few, else the ones that are near."""
    if len(names) <= _FEW:
        return KeyError(f"no game {name!r}; known: {', '.join(names)}")
    near = get_close_matches(name, names, 3, 0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return KeyError(f"no game {name!r}; {hint}`potluck-envs list` names all {len(names)}")
