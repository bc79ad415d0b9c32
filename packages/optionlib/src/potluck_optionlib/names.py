"""What to say to a name that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_FEW = 5


def unknown_game(name: str, names: Sequence[str]) -> KeyError:
    """The error of a provider that has no game of this name: all names if they are few, else the ones that are near."""
    if len(names) <= _FEW:
        return KeyError(f"no game {name!r}; known: {', '.join(names)}")
    by_part = {known.partition("/")[2] or known: known for known in names}
    near = [by_part[part] for part in get_close_matches(name.partition("/")[2] or name, by_part, 3, 0.6)]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return KeyError(f"no game {name!r}; {hint}`potluck-envs list` names all {len(names)}")
