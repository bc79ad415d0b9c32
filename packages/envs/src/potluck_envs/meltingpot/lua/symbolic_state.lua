--[[ SymbolicState: a scene component that tells the state without rendering it.

Observations:
  WORLD.CHANGE   double [?]        what is new since it was read last, see below
  WORLD.LAYER    int32 [H, W, L]   sprite per cell and render layer: an index into `spriteNames`, 0 = nothing
  WORLD.OBJECTS  double [4 M]      the objects' own states, slowly, to check WORLD.CHANGE by. A row: what it is (1 can be
                                   an apple, 2 can be dirty, 3 is an avatar, in order of players), x, y, and 1 or 0
                                   for being it, or an avatar's facing (0 to 3 for N, E, S, W; -1 while it is out)

WORLD.CHANGE starts with four numbers for each of N players, N of a kind in a row: rewards; steps until it can zap;
until it can clean; poses, 4 * cell + facing or -1 while it is out. A cell is y * width + x, from 0. Rows of three follow,
in the order in which things happened:
  0, cell, what        the cell holds nothing (0), an apple (1) or dirt (2) now; after a start, all that hold something
  1, player, cell      the player, from 0, ate an apple there
  2, player, cell      the player cleaned the cell
  3, player, victim    the player zapped another one
These come from functions of the substrates' own components, which run unchanged.

Properties:
  spriteNames    read              sprite names, joined by commas, in the order of their indices
  reseed         write             seeds the engine's random generator
]]
local args = require 'common.args'
local class = require 'common.class'
local properties = require 'common.properties'
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

local EMPTY, APPLE, DIRT = 0, 1, 2
local THING, EAT, CLEAN, ZAP = 0, 1, 2, 3
local FACINGS = {N = 0, E = 1, S = 2, W = 3}

local width = 0
local things = {}  -- every object that can be an apple or dirty: {component, what, state in which it is}
local news, told = {}, 0  -- the numbers of rows that are to be told, and how many there are
local fresh = true

local function tell(kind, a, b)
  news[told + 1], news[told + 2], news[told + 3] = kind, a, b
  told = told + 3
end

local function cell(object)
  local at = object:getPosition()
  return at[2] * width + at[1]
end

local function player(object)
  return object:getComponent('Avatar'):getIndex() - 1
end

function SymbolicState:reset()
  told, fresh = 0, true
end

function SymbolicState:addObservations(tileSet, world, observations)
  local simulation = self.gameObject.simulation
  width = #string.match(simulation:textMap().layout, '[^\n]+')
  observations[#observations + 1] = self:_change(simulation)
  observations[#observations + 1] = self:_layers(world, simulation)
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

local function parts(simulation)
  local found = {}
  for _, object in pairs(simulation:getAvatarGameObjects()) do
    local avatar = object:getComponent('Avatar')
    local alive = {}
    for state in pairs(avatar._config.liveStatesSet) do alive[object:getUniqueState(state)] = true end
    found[avatar:getIndex()] = {
        object = object,
        avatar = avatar,
        alive = alive,
        zapper = object:getComponent('Zapper'),
        cleaner = object:hasComponent('Cleaner') and object:getComponent('Cleaner'),
    }
  end
  return found
end

local function pose(grid, part)
  local piece = part.object:getPiece()
  if not part.alive[grid:state(piece)] then return -1 end
  local at = grid:transform(piece)
  return 4 * (at.pos[2] * width + at.pos[1]) + FACINGS[at.orientation]
end

function SymbolicState:_change(simulation)
  local players, avatars = simulation:getNumPlayers(), parts(simulation)
  local values, size = {}, 0
  for i = 1, 4 * players do values[i] = 0 end
  return {
      name = 'WORLD.CHANGE', type = 'tensor.DoubleTensor', shape = {0},
      func = function(grid)
        for i = 1, players do
          local part = avatars[i]
          values[i] = part.avatar:getReward()
          values[players + i] = part.zapper._coolingTimer
          values[2 * players + i] = part.cleaner and part.cleaner._coolingTimer or 0
          values[3 * players + i] = pose(grid, part)
        end
        if fresh then
          told, fresh = 0, false
          for _, thing in ipairs(things) do
            local object = thing[1].gameObject
            if object:getState() == thing[3] then tell(THING, cell(object), thing[2]) end
          end
        end
        local n = 4 * players
        for i = 1, told do values[n + i] = news[i] end
        for i = n + told + 1, size do values[i] = nil end
        size, told = n + told, 0
        return tensor.DoubleTensor(values)  -- one tensor from a table: writing its elements costs four times as much
      end
  }
end

local function avatar_row(grid, object)
  if not object:getComponent('Avatar'):isAlive() then return {3, -1, -1, -1} end
  local at = object:getPosition()
  return {3, at[1], at[2], FACINGS[object:getOrientation()]}
end

function SymbolicState:_objects(simulation)
  local avatars = parts(simulation)
  return {
      name = 'WORLD.OBJECTS', type = 'tensor.DoubleTensor', shape = {0},
      func = function(grid)
        local rows = {}
        for _, object in ipairs(simulation:getAllGameObjects()) do
          local row
          if object:hasComponent('Edible') then
            local at, live = object:getPosition(), object:getComponent('Edible')._config.liveState
            row = {1, at[1], at[2], object:getState() == live and 1 or 0}
          elseif object:hasComponent('DirtTracker') then
            local at, dirty = object:getPosition(), object:getComponent('DirtTracker')._activeState
            row = {2, at[1], at[2], object:getState() == dirty and 1 or 0}
          end
          for _, value in ipairs(row or {}) do rows[#rows + 1] = value end
        end
        for _, part in ipairs(avatars) do
          for _, value in ipairs(avatar_row(grid, part.object)) do rows[#rows + 1] = value end
        end
        return tensor.DoubleTensor(rows)
      end
  }
end

local known = registry.getAllComponents()

-- A component that is an apple or dirty while its object is in one state.
local function follow(class, what, state)
  local awake, change = class.awake, class.onStateChange
  function class:awake()
    if awake then awake(self) end
    things[#things + 1] = {self, what, state(self)}
  end
  function class:onStateChange(old)
    if change then change(self, old) end
    if not fresh then
      local is, was = self.gameObject:getState() == state(self), old == state(self)
      if is ~= was then tell(THING, cell(self.gameObject), is and what or EMPTY) end
    end
  end
end

follow(known.Edible, APPLE, function(self) return self._config.liveState end)

local eat = known.Edible.onEnter
function known.Edible:onEnter(entering, contact)
  local ripe = contact == 'avatar' and self.gameObject:getState() == self._liveState
  eat(self, entering, contact)
  if ripe then tell(EAT, player(entering), cell(self.gameObject)) end
end

local zap = known.Zapper.onHit
function known.Zapper:onHit(hitting, name)
  local hit = zap(self, hitting, name)
  if hit then tell(ZAP, player(hitting), player(self.gameObject)) end
  return hit
end

if known.DirtTracker then
  follow(known.DirtTracker, DIRT, function(self) return self._activeState end)
  local clean = known.DirtCleaning.onHit
  function known.DirtCleaning:onHit(hitting, name)
    local cleaned = clean(self, hitting, name)
    if cleaned then tell(CLEAN, player(hitting), cell(self.gameObject)) end
    return cleaned
  end
end

registry.registerAllComponents{SymbolicState = SymbolicState}
return {SymbolicState = SymbolicState}
