--[[ SymbolicState: a scene component that tells the state without rendering it.

Observations:
  WORLD.LAYER    int32 [H, W, L]   sprite per cell and render layer: an index into `spriteNames`, 0 = nothing
  WORLD.STATUS   double [4 N]      per player: reward, alive (0 or 1), steps until it can zap, until it can clean
  WORLD.OBJECTS  double [4 M]      the objects' own states, slowly, to check the others by. A row: what it is (1 can be
                                   an apple, 2 can be dirty, 3 is an avatar, in order of players), x, y, and 1 or 0
                                   for being it, or an avatar's facing (0 to 3 for N, E, S, W; -1 while it is out)

Properties:
  spriteNames    read              sprite names, joined by commas, in the order of their indices from 1 on
  reseed         write             seeds the engine's random generator

Events, with player_index from 1 and the cell (x, y) from 0:
  potluck_eat    an apple was eaten
  potluck_clean  a dirty cell was cleaned
Both come from functions of the substrates' own components, which run unchanged.
]]
local args = require 'common.args'
local class = require 'common.class'
local properties = require 'common.properties'
local events = require 'system.events'
local random = require 'system.random'
local tensor = require 'system.tensor'
local modules = 'meltingpot.lua.modules.'
local component = require(modules .. 'component')
local registry = require(modules .. 'component_registry')

local SymbolicState = class.Class(component.Component)

function SymbolicState:__init__(kwargs)
  kwargs = args.parse(kwargs, {{'name', args.default('SymbolicState')}})
  SymbolicState.Base.__init__(self, kwargs)
end

function SymbolicState:addObservations(tileSet, world, observations)
  local simulation = self.gameObject.simulation
  observations[#observations + 1] = self:_layers(world, simulation)
  observations[#observations + 1] = self:_status(simulation)
  observations[#observations + 1] = self:_objects(simulation)
  properties.addWriteOnly('reseed', function(seed) random:seed(tonumber(seed)) end)
  properties.addReadOnly('spriteNames', table.concat(world:spriteNames(), ','))
end

function SymbolicState:_layers(world, simulation)
  local view = world:createView{layout = simulation:textMap().layout}
  local spec = view:observationSpec('WORLD.LAYER')
  spec.func = function(grid) return view:observation{grid = grid} end
  return spec
end

function SymbolicState:_status(simulation)
  local players, avatars, values = simulation:getNumPlayers(), {}, {}
  for _, object in pairs(simulation:getAvatarGameObjects()) do
    avatars[object:getComponent('Avatar'):getIndex()] = object
  end
  return {
      name = 'WORLD.STATUS', type = 'tensor.DoubleTensor', shape = {players * 4},
      func = function(grid)
        for i = 1, players do
          local object, k = avatars[i], 4 * (i - 1)
          values[k + 1] = object:getComponent('Avatar'):getReward()
          values[k + 2] = object:getComponent('Avatar'):isAlive() and 1 or 0
          values[k + 3] = object:getComponent('Zapper')._coolingTimer
          values[k + 4] = object:hasComponent('Cleaner') and object:getComponent('Cleaner')._coolingTimer or 0
        end
        return tensor.DoubleTensor(values)  -- one tensor from a table: writing its elements costs four times as much
      end
  }
end

local FACINGS = {N = 0, E = 1, S = 2, W = 3}

local function avatar_row(object)
  if not object:getComponent('Avatar'):isAlive() then return {3, -1, -1, -1} end
  local at = object:getPosition()
  return {3, at[1], at[2], FACINGS[object:getOrientation()]}
end

function SymbolicState:_objects(simulation)
  local found, avatars = {}, {}
  for _, object in ipairs(simulation:getAllGameObjects()) do
    if object:hasComponent('Edible') then
      found[#found + 1] = {1, object, object:getComponent('Edible')._config.liveState}
    elseif object:hasComponent('DirtTracker') then
      found[#found + 1] = {2, object, object:getComponent('DirtTracker')._activeState}
    elseif object:hasComponent('Avatar') then
      avatars[object:getComponent('Avatar'):getIndex()] = object
    end
  end
  return {
      name = 'WORLD.OBJECTS', type = 'tensor.DoubleTensor', shape = {4 * (#found + #avatars)},
      func = function(grid)
        local rows = {}
        for _, entry in ipairs(found) do
          local at = entry[2]:getPosition()
          local is = entry[2]:getState() == entry[3] and 1 or 0
          for _, value in ipairs{entry[1], at[1], at[2], is} do rows[#rows + 1] = value end
        end
        for _, object in ipairs(avatars) do
          for _, value in ipairs(avatar_row(object)) do rows[#rows + 1] = value end
        end
        return tensor.DoubleTensor(rows)
      end
  }
end

local function tell(event, actor, object)
  local at = object:getPosition()
  events:add(event, 'dict', 'player_index', actor:getComponent('Avatar'):getIndex(), 'x', at[1], 'y', at[2])
end

local known = registry.getAllComponents()

local eat = known.Edible.onEnter
function known.Edible:onEnter(entering, contact)
  local ripe = contact == 'avatar' and self.gameObject:getState() == self._liveState
  eat(self, entering, contact)
  if ripe then tell('potluck_eat', entering, self.gameObject) end
end

if known.DirtCleaning then
  local hit = known.DirtCleaning.onHit
  function known.DirtCleaning:onHit(hitting, name)
    local cleaned = hit(self, hitting, name)
    if cleaned then tell('potluck_clean', hitting, self.gameObject) end
    return cleaned
  end
end

registry.registerAllComponents{SymbolicState = SymbolicState}
return {SymbolicState = SymbolicState}
