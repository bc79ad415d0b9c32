"""Makes overcooked_ai_py 1.1.0 importable on NumPy 2 and without the dead `gym` package.

The rest of the package imports the engine's names from here, never from overcooked_ai_py. The engine evaluates
`np.Inf` and `np.int` at import and asks gym for nothing but a registration hook; both are stood in for, and nothing
else of either package is touched.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np


def _restore_numpy_names() -> None:
    for name, value in (("Inf", np.inf), ("int", int), ("bool", np.bool_), ("float", float)):
        if name not in np.__dict__:
            setattr(np, name, value)


def _stand_in_for_gym() -> None:
    if "gym" in sys.modules:
        return
    names = ("gym", "gym.spaces", "gym.envs", "gym.envs.registration")
    gym, spaces, envs, registration = (ModuleType(name) for name in names)
    gym.__dict__.update(__path__=[], Env=object, spaces=spaces, envs=envs)
    envs.__dict__.update(__path__=[], registration=registration)
    registration.__dict__.update(register=lambda *args, **kwargs: None)
    sys.modules.update(zip(names, (gym, spaces, envs, registration), strict=True))


_restore_numpy_names()
_stand_in_for_gym()

from overcooked_ai_py.mdp.actions import Action  # noqa: E402
from overcooked_ai_py.mdp.overcooked_mdp import (  # noqa: E402
    EVENT_TYPES,
    ObjectState,
    OvercookedGridworld,
    OvercookedState,
    PlayerState,
    Recipe,
    SoupState,
)
from overcooked_ai_py.static import LAYOUTS_DIR  # noqa: E402
from overcooked_ai_py.utils import read_layout_dict  # noqa: E402

__all__ = [
    "EVENT_TYPES",
    "LAYOUTS_DIR",
    "Action",
    "ObjectState",
    "OvercookedGridworld",
    "OvercookedState",
    "PlayerState",
    "Recipe",
    "SoupState",
    "read_layout_dict",
]
