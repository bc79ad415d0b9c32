"""Our shorter way from the engine to components (dispatch.lua) against Melting Pot's own: equal to the last pixel."""

import random
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.substrates import SUBSTRATES

STEPS, EPISODES = 80, 2
PACKAGES_OWN = """
local GameObject = require('meltingpot.lua.modules.game_object').GameObject
function GameObject:inOrder()
  local found = {}
  for _, list in pairs(self._components) do
    for _, part in ipairs(list) do found[#found + 1] = part end
  end
  return found
end
return function() end
"""
LATE = """
return function(Simulation, base)
  quick(Simulation, base)
  local update = Simulation.update
  function Simulation:update(grid)
    self._steps = (self._steps or 0) + 1
    if self._steps > 3 then update(self, grid) end
  end
end
"""


def level_with(folder: Path, dispatch: str) -> Path:
    """Our Lua files with another dispatch; `quick` in it is ours."""
    shutil.copytree(str(files("potluck_envs.meltingpot").joinpath("lua")), folder)
    (folder / "dispatch.lua").rename(folder / "quick.lua")
    quick = "local quick = require 'potluck.quick'\n" if "quick(" in dispatch else ""
    (folder / "dispatch.lua").write_text(quick + dispatch)
    return folder


def told(name: str, lua: Path | None = None) -> list[object]:
    """All that an engine tells of some episodes, one after the other in one engine."""
    known, rng = SUBSTRATES[name], random.Random(3)
    core, found = Core(known, None, False, lua), []
    for seed in range(EPISODES):
        found.append(core.start(seed))
        for _ in range(STEPS):
            found.append(core.advance(bytes(rng.randrange(len(known.actions)) for _ in range(known.agents))))
        found += [core.observe(what).tobytes() for what in ("WORLD.LAYER", "WORLD.OBJECTS", "WORLD.RGB", "2.RGB")]
    return found


@pytest.mark.parametrize("name", sorted(SUBSTRATES))
def test_it_plays_as_the_packages_own(name, tmp_path):
    assert told(name) == told(name, level_with(tmp_path / "lua", PACKAGES_OWN))


def test_one_that_leaves_updates_out_is_told_apart(tmp_path):
    assert told("clean_up") != told("clean_up", level_with(tmp_path / "lua", LATE))
