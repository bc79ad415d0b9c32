--[[ Melting Pot's way from the engine to its components, with less work: the same functions in the same order.

The package looks for an object's components in the order of pairs() whenever something happens to it, which has to sort
them (see ordered_pairs.lua), and builds names, texts and callbacks anew that are the same every time. Components never
change once an object is built, so that all of this is kept here.
]]
local modules = 'meltingpot.lua.modules.'
local GameObject = require(modules .. 'game_object').GameObject
local registry = require(modules .. 'component_registry')
local StateManager, Transform = registry.getComponent('StateManager'), registry.getComponent('Transform')

-- The engine collects all garbage, twice, before each start. That takes longer than the start itself; what is left
-- behind goes by the steps that the collector makes anyway.
local collect = collectgarbage
function _G.collectgarbage(what, ...)
  if what then return collect(what, ...) end
end

local add = GameObject.addComponent
function GameObject:addComponent(part)
  self._inOrder, self._calling = nil, nil
  return add(self, part)
end

function GameObject:inOrder()
  local found = self._inOrder
  if not found then
    found = {}
    for _, list in pairs(self._components) do
      for _, part in ipairs(list) do found[#found + 1] = part end
    end
    self._inOrder = found
  end
  return found
end

-- An object's components that have a function, in order.
local function calling(object, name)
  local kept = object._calling
  if not kept then
    kept = {}
    object._calling = kept
  end
  local found = kept[name]
  if not found then
    found = {}
    for _, part in ipairs(object:inOrder()) do
      if part[name] then found[#found + 1] = part end
    end
    kept[name] = found
  end
  return found
end

function GameObject:reset()
  local parts = calling(self, 'reset')
  for i = 1, #parts do parts[i]:reset() end
  self._grid = nil
end

function GameObject:start(grid, locator)
  self._grid = grid
  self._transform:start(locator)
  local parts = calling(self, 'start')
  for i = 1, #parts do
    if parts[i] ~= self._transform then parts[i]:start(locator) end
  end
end

function GameObject:postStart()
  local parts = calling(self, 'postStart')
  for i = 1, #parts do parts[i]:postStart() end
end

-- Without the text of a failure, which the package's own puts together for every object that comes into being.
function Transform:start()
  local variables, object = self._variables, self.gameObject
  variables.started, variables.grid = true, object._grid
  if self._config.deferPieceCreation then return end
  self._at = self._at or {pos = self._kwargs.position, orientation = self._kwargs.orientation}
  variables.piece = object._grid:createPiece(object:getUniqueState(), self._at)
  if not variables.piece then error('There is no room for the object ' .. object._id) end
end

function GameObject:_doOnAllComponents(call)
  local told, parts = {}, self:inOrder()
  for i = 1, #parts do
    local value = call(parts[i])
    if value then told[#told + 1] = value end
  end
  return told
end

function GameObject:_onAdd(state)
  local heeding = calling(self, 'onStateChange')
  for i = 1, #heeding do heeding[i]:onStateChange(self._previousState) end
end

function GameObject:_onRemove(unique)
  self._previousState = self._stateManager:deuniquifyState(unique)
end

local plain = {}
local strip = StateManager._deuniquifyState
function StateManager:_deuniquifyState(unique)
  local state = plain[unique]
  if not state then
    state = strip(self, unique)
    plain[unique] = state
  end
  return state
end

function StateManager:setState(grid, state)
  local known = self._uniqueStates
  if not known then
    known = {}
    self._uniqueStates = known
  end
  local unique = known[state]
  if not unique then
    self:_validateState(state)
    unique = self:getUniqueState(state)
    known[state] = unique
  end
  grid:setState(self.gameObject:getPiece(), unique)
end

-- The components of some objects that have a function, object by object.
local function with(objects, name)
  local found = {}
  for _, object in ipairs(objects) do
    for _, part in ipairs(object._components_by_function[name] or {}) do found[#found + 1] = part end
  end
  return found
end

local function acting(avatars)
  local found = {}
  for _, avatar in pairs(avatars) do
    for _, part in ipairs(avatar:inOrder()) do
      if part.discreteActions then found[#found + 1] = part end
    end
  end
  return found
end

-- Runs of components that are updated together, see rules.lua, and the others one by one.
local function runs(parts)
  local found = {}
  for _, part in ipairs(parts) do
    local last = found[#found]
    if last and last.all == part.updateAll then
      table.insert(last.parts, part)
    else
      found[#found + 1] = {all = part.updateAll, parts = {part}}
    end
  end
  return found
end

-- Whether nothing is called back in a state: the engine looks up every call by its name at each start.
local function silent(calls)
  return not (calls.onAdd or calls.onRemove or calls.onBlocked or calls.onHit or calls.onContact or next(calls.onUpdate))
end

-- Replaces a simulation's own dispatch.
return function(Simulation, base)
  function Simulation:update(grid)
    if not self._early then
      local by = self._variables.objectsByFunctionName
      self._early, self._late = with(by.preUpdate, 'preUpdate'), runs(with(by.update, 'update'))
    end
    local early, late = self._early, self._late
    for i = 1, #early do early[i]:preUpdate() end
    for i = 1, #late do
      local all, parts = late[i].all, late[i].parts
      if all then
        all(parts)
      else
        for j = 1, #parts do parts[j]:update() end
      end
    end
  end

  function Simulation:begin(grid)
    local by = self._variables.objectsByFunctionName
    self._updaterRegistry:registerGrid(grid)
    self._variables.continueEpisodeAfterThisFrame = true
    for _, object in ipairs(by.reset) do object:reset() end
    for _, object in ipairs(self._variables.gameObjects) do
      if not object:hasComponent('Avatar') then
        object:start(grid)
        self._variables.pieceToGameObject[object:getPiece()] = object
      end
    end
    self:_avatarStart(grid)
    self._grid = grid
  end

  function Simulation:discreteActions(actions)
    self._acting = self._acting or acting(self._variables.avatarObjects)
    local parts = self._acting
    for i = 1, #parts do parts[i]:discreteActions(actions) end
  end

  function Simulation:stateCallbacks(callbacks)
    if not self._callbacks then
      self._callbacks = {}
      base.stateCallbacks(self, self._callbacks)
      for state, calls in pairs(self._callbacks) do
        if silent(calls) then self._callbacks[state] = nil end
      end
    end
    for state, called in next, self._callbacks do callbacks[state] = called end
  end
end
