--[[ Scenery: objects that only change their looks, such as water, are put in motion when somebody looks.

The package's animations set the state of every such object, three steps apart, though nothing in a game depends on it.
Here these objects stand still. The engine's draws for them are made as before, since they depend on how many there are
and not on what is done with them. Views see what the package's would show: sprites are exchanged by the steps played.
]]
local modules = 'meltingpot.lua.modules.'
local Animation = require(modules .. 'component_registry').getComponent('Animation')
local updaters = require 'potluck.updaters'
local LISTENERS = {'onStateChange', 'onHit', 'onEnter', 'onExit', 'onBlocked'}

local cycle = nil  -- of all objects that this is about: {object, sprites in order, steps each}

local function sprites(object, states)
  local by, found = {}, {}
  for _, config in ipairs(object._stateManager._allStateConfigs) do by[config.state] = config.sprite end
  for i, state in ipairs(states) do found[i] = by[state] end
  return found
end

-- Whether an animation is scenery, with the same cycle as the first one that was.
local function still(part)
  local config, object = part._config, part.gameObject
  if not (config.loop and config.group) then return false end
  for _, listener in ipairs(LISTENERS) do
    if object:hasComponentWithFunction(listener) then return false end
  end
  local seen, steps = sprites(object, config.states), config.gameFramesPerAnimationFrame + 1
  cycle = cycle or {object = object, sprites = seen, steps = steps}
  return cycle.steps == steps and table.concat(cycle.sprites, ' ') == table.concat(seen, ' ')
end

local animate = Animation.registerUpdaters
function Animation:registerUpdaters(registry)
  animate(self, still(self) and updaters.muted(registry) or registry)
end

-- A view that shows the scenery as it is after the steps played.
local function view(world, config)
  local views = {}
  local function at(shift)
    if not views[shift] then
      local shifted, map = {}, {}
      for key, value in pairs(config) do shifted[key] = value end
      for from, to in pairs(config.spriteMap or {}) do map[from] = to end
      local names = cycle.sprites
      for i = 1, #names do map[names[i]] = names[(i - 1 + shift) % #names + 1] end
      shifted.spriteMap = map
      views[shift] = world:createView(shifted)
    end
    return views[shift]
  end
  local shown = {}
  function shown:gridSize() return at(0):gridSize() end
  function shown:observationSpec(name) return at(0):observationSpec(name) end
  function shown:observation(what)
    local played = what.grid:frames(cycle.object:getPiece())
    return at(math.floor(played / cycle.steps) % #cycle.sprites):observation(what)
  end
  return shown
end

-- A world whose views show the scenery.
return function(world)
  if not cycle then return world end
  local seen = {}
  function seen:createView(config) return view(world, config) end
  function seen:spriteNames() return world:spriteNames() end
  return seen
end
