"""Our shorter ways (dispatch.lua, rules.lua, scenery.lua) against Melting Pot's own: equal to the last pixel."""

import random
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.substrates import SUBSTRATES

STEPS, EPISODES, LOOKS = 210, 2, 7
DISPATCH = """
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
OWN = {"dispatch": DISPATCH, "rules": "", "scenery": "return function(world) return world end"}
"""Melting Pot's own ways, by the files that they are in place of."""
LATE = """
local quick = require 'potluck.quick'
return function(Simulation, base)
  quick(Simulation, base)
  local update = Simulation.update
  function Simulation:update(grid)
    self._steps = (self._steps or 0) + 1
    if self._steps > 3 then update(self, grid) end
  end
end
"""
TWICE = """
require 'potluck.quick'
local known = require('meltingpot.lua.modules.component_registry').getAllComponents()
local class, name = known.AppleGrow or known.DensityRegrow, known.AppleGrow and 'updateAll' or 'update'
local update = class[name]
class[name] = function(it) update(it) update(it) it._asked = nil end
"""
FORGETFUL = """
require 'potluck.quick'
local known = require('meltingpot.lua.modules.component_registry').getAllComponents()
known.GlobalData.preUpdate = function() end
"""
FROZEN = """
local quick = require 'potluck.quick'
return function(world)
  quick(world)
  return world
end
"""


def level_with(folder: Path, changed: dict[str, str]) -> Path:
    """Our Lua files with others in their places; one in the place of a single file finds ours as `quick`."""
    shutil.copytree(str(files("potluck_envs.meltingpot").joinpath("lua")), folder)
    for name, text in changed.items():
        (folder / f"{name}.lua").rename(folder / "quick.lua")
        (folder / f"{name}.lua").write_text(text)
    return folder


def told(name: str, lua: Path | None = None) -> list[object]:
    """All that an engine tells of some episodes, one after the other in one engine."""
    known, rng = SUBSTRATES[name], random.Random(3)
    core, found = Core(known, None, False, lua), []
    counts = [f"{n}.NUM_OTHERS_WHO_CLEANED_THIS_STEP" for n in (1, 2)] if name == "clean_up" else []
    moves = [
        i for i, action in enumerate(known.actions) for _ in range(4 if action in ("FORWARD", "FIRE_CLEAN") else 1)
    ]
    for seed in range(EPISODES):
        found.append(core.start(seed))
        for step in range(STEPS):
            found.append(core.advance(bytes(rng.choice(moves) for _ in range(known.agents))))
            found += [float(core.observe(what)) for what in counts]
            if step % LOOKS == 0:
                found += [
                    core.observe(what).tobytes() for what in ("WORLD.LAYER", "WORLD.OBJECTS", "WORLD.RGB", "2.RGB")
                ]
    return found


@pytest.mark.parametrize("name", sorted(SUBSTRATES))
def test_it_plays_as_the_packages_own(name, tmp_path):
    ours = told(name)
    assert ours == told(name, level_with(tmp_path / "lua", OWN))
    assert name != "clean_up" or 1.0 in ours, "somebody cleaned, and the others were told"


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("clean_up", {"dispatch": LATE}),
        ("clean_up", {"rules": TWICE}),
        ("commons_harvest__open", {"rules": TWICE.replace("update(it) update(it)", "")}),
        ("clean_up", {"rules": FORGETFUL}),
        ("clean_up", {"scenery": FROZEN}),
    ],
)
def test_another_way_is_told_apart(name, changed, tmp_path):
    assert told(name) != told(name, level_with(tmp_path / "lua", changed))
