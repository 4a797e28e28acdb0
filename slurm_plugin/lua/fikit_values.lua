-- Priorities, sizes, shares and times as people write them: fikitd.priorities, fikitd.quantities, fikit_priority.h and
-- fikit_quantities.c read the same; tests compare them. And what Slurm hands over where nothing was given.

local values = {}

values.priorities = { high = 1, normal = 5, low = 8 }
values.lowest = 9

local UNITS = { [""] = 2 ^ 20, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40 }
local TIME_UNITS = { ns = 1, us = 1e3, ["\194\181s"] = 1e3, ms = 1e6, s = 1e9 }
local LONGEST_NS = 3600e9

-- "high", "3" -> a number; nil when it is no priority.
function values.priority(text)
  return values.priorities[text] or text:match("^%d$") and tonumber(text)
end

-- "20G", "512M", "16GiB", "4096" (MB) -> bytes; nil when it is no size.
function values.bytes(text)
  local number, unit = text:match("^(%d+)([kKmMgGtT]?)[iI]?[bB]?$")
  if not number or text:match("^%d+[iI]?[bB]$") or tonumber(number) == 0 then return nil end
  return tonumber(number) * UNITS[unit:upper()]
end

-- "1.5rest" -> 1.5, "rest"
local function decimal(text)
  local whole, places, rest = text:match("^(%d+)%.(%d+)(.*)$")
  if not whole then whole, rest = text:match("^(%d+)(.*)$") end
  if not whole or #whole > 12 or places and #places > 6 then return nil end
  return tonumber(whole .. "." .. (places or "0")), rest
end

-- "5%", "0.05" -> 0.05; nil when it is no share.
function values.share(text)
  local number, rest = decimal(text)
  if not number or (rest ~= "" and rest ~= "%") then return nil end
  if rest == "%" then number = number / 100 end
  return number <= 1 and number or nil
end

-- "200us" -> 200000; nil when it is no time, or longer than an hour.
function values.time_ns(text)
  local number, unit = decimal(text)
  if not number or not TIME_UNITS[unit] or number * TIME_UNITS[unit] > LONGEST_NS then return nil end
  return number * TIME_UNITS[unit]
end

local NO_VALUE = 4294967294 -- Slurm's NO_VAL: a number that was not given

-- Text of an option or field of Slurm's; nil where nothing was given.
function values.given(text)
  if text == nil or text == "" or text == "(null)" or text == "unset" then return nil end
  return text
end

function values.truth(text)
  text = values.given(text)
  return text ~= nil and text ~= "0" and text:lower() ~= "no" and text:lower() ~= "false"
end

function values.number(value)
  value = tonumber(value)
  if value == nil or value >= NO_VALUE then return nil end
  return value
end

return values
