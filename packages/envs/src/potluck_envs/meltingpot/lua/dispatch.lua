--[[ Melting Pot's way from the engine to its components, with less work: the same functions in the same order.

The package looks for an object's components in the order of pairs() whenever something happens to it, which has to sort
them (see ordered_pairs.lua), and builds names, texts and callbacks anew that are the same every time. Components never
change once an object is built, so that all of this is kept here.
]]
local modules = 'meltingpot.lua.modules.'
local GameObject = require(modules .. 'game_object').GameObject
local StateManager = require(modules .. 'component_registry').getComponent('StateManager')

-- The engine collects all garbage, twice, before each start. That takes longer than the start itself; what is left
-- behind goes by the steps that the collector makes anyway.
local collect = collectgarbage
function _G.collectgarbage(what, ...)
  if what then return collect(what, ...) end
end

local add = GameObject.addComponent
function GameObject:addComponent(part)
  self._inOrder = nil
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

function GameObject:_doOnAllComponents(call)
  local told, parts = {}, self:inOrder()
  for i = 1, #parts do
    local value = call(parts[i])
    if value then told[#told + 1] = value end
  end
  return told
end

function GameObject:_onAdd(state)
  local heeding = self._heeding
  if not heeding then
    heeding = {}
    for _, part in ipairs(self:inOrder()) do
      if part.onStateChange then heeding[#heeding + 1] = part end
    end
    self._heeding = heeding
  end
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

-- Replaces a simulation's own dispatch.
return function(Simulation, base)
  function Simulation:update(grid)
    if not self._early then
      local by = self._variables.objectsByFunctionName
      self._early, self._late = with(by.preUpdate, 'preUpdate'), with(by.update, 'update')
    end
    local early, late = self._early, self._late
    for i = 1, #early do early[i]:preUpdate() end
    for i = 1, #late do late[i]:update() end
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
    end
    for state, called in next, self._callbacks do callbacks[state] = called end
  end
end
