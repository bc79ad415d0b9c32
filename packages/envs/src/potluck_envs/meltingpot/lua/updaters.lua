--[[ A registry of updaters that changes what components register with the engine's own. ]]

-- Hands on what `change` makes of each; without a function, the engine's draws for an updater are made still.
local function changing(registry, change)
  local between = {}
  function between:registerUpdater(wanted)
    change(wanted)
    registry:registerUpdater(wanted)
  end
  return between
end

-- Takes the functions of updaters of a priority, or of all.
local function muted(registry, priority)
  return changing(registry, function(wanted)
    if wanted.priority == priority or not priority then wanted.updateFn = nil end
  end)
end

return {changing = changing, muted = muted}
