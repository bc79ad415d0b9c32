--[[ Makes pairs() ordered.

The engine's LuaJIT seeds its hash of strings per state, so that pairs() over string keys runs in another order in every
environment. Melting Pot starts avatars and updates objects in that order, so that equal seeds come to unequal episodes.
Keys are sorted by type, then numbers and strings by their value, all others by their text. Plain arrays, whose order is
fixed already, keep the original function.
]]
local next, type, tostring, sort, rawpairs = next, type, tostring, table.sort, pairs

local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return ta < tb end
  if ta == 'number' or ta == 'string' then return a < b end
  return tostring(a) < tostring(b)
end

local function ordered(t)
  local n = #t
  if n > 0 and next(t, n) == nil then return rawpairs(t) end
  local keys = {}
  for key in next, t, nil do keys[#keys + 1] = key end
  if #keys < 2 then return rawpairs(t) end
  sort(keys, before)
  local i = 0
  return function()
    i = i + 1
    local key = keys[i]
    if key ~= nil then return key, t[key] end
  end
end

_G.pairs = ordered
return ordered
