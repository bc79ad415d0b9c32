--[[ The body of our levels: Melting Pot's simulation with ordered pairs, symbolic state and a start that can be repeated.

`levels/<name>/init.lua` is one line, naming the components of the stock level.
]]
require 'potluck.ordered_pairs'
require('common.log').setLogLevel('ERROR')
local class = require 'common.class'
local modules = 'meltingpot.lua.modules.'

local function level(components)
  local api_factory = require(modules .. 'api_factory')
  local base = require(modules .. 'base_simulation').BaseSimulation
  require(modules .. 'component_library')
  require(modules .. 'avatar_library')
  require(components)
  require 'potluck.symbolic_state'
  require 'potluck.rules'
  local seen = require 'potluck.scenery'
  local dispatch = require 'potluck.dispatch'

  -- Most of the time of a build and a start goes into a text of the whole world for log lines that are never printed.
  -- The function that writes it sits in the module that also offers tostringOneLine.
  for _, module in pairs(package.loaded) do
    if type(module) == 'table' and rawget(module, 'tostringOneLine') then
      module.tostring = function() return '' end
    end
  end

  local Simulation = class.Class(base)
  Simulation.defaultSettings = base.defaultSettings

  function Simulation:__init__(kwargs) base.__init__(self, kwargs) end

  dispatch(Simulation, base)
  local begin = Simulation.begin or base.start

  function Simulation:addObservations(tileSet, world, observations)
    base.addObservations(self, tileSet, seen(world), observations)
  end

  -- Forgets the episode before, without which a second start aborts the process or carries state over.
  function Simulation:start(grid)
    for _, object in ipairs(self._variables.gameObjects) do
      object._previousState = nil
      object._grid = nil
      object._transform._variables = {started = false}
      for _, part in ipairs(object:inOrder()) do
        if part.name == 'DensityRegrow' then part._started = false end
        if part.name == 'Avatar' then
          part._spawnGroup = part._config.initialSpawnGroup
          part:_initializeVolatileVariables()
        end
      end
    end
    self._variables.pieceToGameObject = {}
    self._variables.avatarPieceToIndex = {}
    self._variables.avatarIndexToPiece = {}
    begin(self, grid)
  end

  return api_factory.apiFactory{
      Simulation = Simulation,
      settings = {spriteSize = 8, maxEpisodeLengthFrames = 1000, simulation = {}},
  }
end

return level
