"""Builds the raw dmlab2d environment of a substrate with our level in place of its own.

The package that is installed stays as it is: a folder of links (`meltingpot` to the package, `potluck` to our Lua
files) is the engine's level directory while it builds. Nothing is rendered unless an observation with pixels is asked
for.
"""

from __future__ import annotations

import copy
import tempfile
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.substrates import Substrate

FOREVER = 10**9
"""Steps of an episode that only its player ends."""
MAX_SEED = 2**31 - 1


def build(substrate: Substrate, horizon: int | None, stochastic_ending: bool, lua: Path | None = None) -> Any:
    """A fresh `dmlab2d.Lab2d`. Raises EngineUnavailable.

    horizon: steps after which the engine ends an episode; None leaves that to its player. stochastic_ending: the
    substrate's own rule, by which it may end every 100 steps from the 1000th on, with its own limit for a horizon. lua:
    a folder in place of ours, with the same files in it.
    """
    dmlab2d = stack.lab2d()
    with as_file(files(__package__).joinpath("lua")) as ours, tempfile.TemporaryDirectory(prefix="potluck-") as root:
        Path(root, "meltingpot").symlink_to(stack.package_folder(), target_is_directory=True)
        Path(root, "potluck").symlink_to((lua or ours).resolve(), target_is_directory=True)
        settings = dict(_settings(substrate, horizon, stochastic_ending), levelDirectory=root)
        return dmlab2d.Lab2d(str(Path(dmlab2d.__file__).parents[1]), settings)


@lru_cache(maxsize=8)
def _settings(substrate: Substrate, horizon: int | None, stochastic_ending: bool) -> dict[str, str]:
    """Flat settings but for the level directory."""
    builder = stack.builder()
    module = stack.config(substrate.name)
    config = module.get_config()
    definition = copy.deepcopy(dict(module.build(("default",) * substrate.agents, config)))
    scene = definition["simulation"]["scene"]
    if not stochastic_ending:
        definition["maxEpisodeLengthFrames"] = FOREVER if horizon is None else horizon
        scene["components"] = [c for c in scene["components"] if c["component"] != "StochasticIntervalEpisodeEnding"]
    scene["components"].append({"component": "SymbolicState", "kwargs": {}})
    settings = builder.config_dict.ConfigDict(definition).unlock()
    builder.apply_prefab_overrides(settings, None)
    builder.maybe_build_and_add_avatar_objects(settings)
    settings.levelName = f"potluck/levels/{substrate.name}"
    settings.levelDirectory = ""
    flat: dict[str, str] = builder.parse_python_settings_for_dmlab2d(settings)
    # Every start has a seed of its own; this one would only seed what comes before the first.
    return flat | {"env_seed": "1"}
