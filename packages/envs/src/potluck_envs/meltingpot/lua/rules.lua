--[[ Rules that look at every object in every step, with less work: the same draws and the same changes.

A component with `updateAll` is updated together with its likes that follow it.
]]
local random = require 'system.random'
local updaters = require 'potluck.updaters'
local modules = 'meltingpot.lua.modules.'
local known = require(modules .. 'component_registry').getAllComponents()
local changing, muted = updaters.changing, updaters.muted

-- Cleanup's apples all grow with the same probability, which is asked for once.
local AppleGrow = known.AppleGrow
if AppleGrow then
  function AppleGrow.updateAll(parts)
    local first = parts[1]
    local dirty, clean = first._riverMonitor:getDirtCount(), first._riverMonitor:getCleanCount()
    local depletion, restoration = first._config.thresholdDepletion, first._config.thresholdRestoration
    local interpolation = math.min((dirty / (dirty + clean) - depletion) / (restoration - depletion), 1.0)
    local probability = first._config.maxAppleGrowthRate * interpolation
    for i = 1, #parts do
      if random:uniformReal(0.0, 1.0) < probability then parts[i].gameObject:setState('apple') end
    end
  end
end

-- Harvest's waiting apples set their state and that of their grass in every step, nearly always to what they are in.
local DensityRegrow = known.DensityRegrow
if DensityRegrow then
  local reset, update, change = DensityRegrow.reset, DensityRegrow.update, DensityRegrow.onStateChange

  function DensityRegrow:reset()
    self._asked = nil
    reset(self)
  end

  function DensityRegrow:update()
    local near = self._variables.pieceToNumNeighbors[self.gameObject:getPiece()]
    if self._asked ~= near then
      update(self)
      self._asked = near
    end
  end

  function DensityRegrow:onStateChange(old)
    change(self, old)
    if old ~= self.gameObject:getState() then self._asked = nil end
  end
end

-- A tool's updater has nothing to do for an agent that neither fires nor waits for the tool to cool down.
local function idling(part, registry, action)
  return changing(registry, function(wanted)
    local use = wanted.updateFn
    if wanted.priority ~= 140 or part._config.cooldownTime < 0 then return end
    wanted.updateFn = function()
      local actions = part.gameObject:getComponent('Avatar'):getVolatileData().actions
      if part._coolingTimer > 0 or actions[action] == 1 then use() end
    end
  end)
end

local zapping = known.Zapper.registerUpdaters
function known.Zapper:registerUpdaters(registry)
  zapping(self, idling(self, registry, 'fireZap'))
end

-- Cleanup's counts of who cleaned and who ate, which only observations of the package's own tell, were set to 0 for
-- all agents in every step. Now they are when somebody has cleaned or eaten in the step before.
local GlobalData = known.GlobalData
if GlobalData then
  local Cleaner, Taste, Others = known.Cleaner, known.Taste, known.AllNonselfCumulants
  local cleaning, tasting, counting = Cleaner.registerUpdaters, Taste.registerUpdaters, Others.registerUpdaters
  local summing, reset = GlobalData.registerUpdaters, GlobalData.reset
  local cleaned, ate = GlobalData.setCleanedThisStep, GlobalData.setAteThisStep

  function Cleaner:registerUpdaters(registry) cleaning(self, muted(idling(self, registry, 'fireClean'), 400)) end
  function Taste:registerUpdaters(registry) tasting(self, muted(registry)) end
  function Others:registerUpdaters(registry) counting(self, muted(registry)) end
  function GlobalData:registerUpdaters(registry) summing(self, muted(registry)) end

  function GlobalData:setCleanedThisStep(player)
    self._told = true
    cleaned(self, player)
  end

  function GlobalData:setAteThisStep(player)
    self._told = true
    ate(self, player)
  end

  function GlobalData:reset()
    reset(self)
    self:_zero()
    self._told, self._counted = false, false
  end

  function GlobalData:_zero()
    for _, avatar in pairs(self.gameObject.simulation:getAvatarGameObjects()) do
      avatar:getComponent('Cleaner').player_cleaned = 0
      avatar:getComponent('Taste').player_ate_apple = 0
    end
  end

  function GlobalData:preUpdate()
    if not (self._told or self._counted) then return end
    for _, avatar in pairs(self.gameObject.simulation:getAvatarGameObjects()) do
      local others = avatar:getComponent('AllNonselfCumulants')
      others.num_others_who_cleaned_this_step = others:sumNonself(self.playersWhoCleanedThisStep)
      others.num_others_who_ate_this_step = others:sumNonself(self.playersWhoAteThisStep)
    end
    if self._told then
      self:_zero()
      self.playersWhoCleanedThisStep:fill(0)
      self.playersWhoAteThisStep:fill(0)
    end
    self._told, self._counted = false, self._told
  end
end
