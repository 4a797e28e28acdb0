-- Priorities, sizes, shares, times and names of profiles as people write them. slurmctld approves by this what the node then
-- goes by (fikit_args.c, fikit_quantities.c), and fikitd reads the same (fikitd.base.priorities, fikitd.base.quantities): a
-- test compares all three on any text. And what Slurm hands over where nothing was given.

local values = {}

values.priorities = { high = 1, normal = 5, low = 8 }
values.lowest = 9

local UNITS = { [""] = 2 ^ 20, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40 }
local TIME_UNITS = { ns = 1, us = 1e3, ["\194\181s"] = 1e3, ms = 1e6, s = 1e9 }
local LONGEST_NS = 3600e9
local MOST_SIZE_DIGITS = 16
local MOST_BYTES = 2 ^ 53 -- which is exact in every language

-- "high", "3" -> a number; nil when it is no priority.
function values.priority(text)
  return values.priorities[text] or text:match("^%d$") and tonumber(text) or nil
end

-- "auto", "auto:low-high" -> the highest and the lowest priority between which fikitd chooses; nil when it is no range. default: the
-- number that jobs have which name none.
function values.range(text, default)
  if text == "auto" then return default, math.max(default, values.priorities.low) end
  local low, high = text:match("^auto:([^-]*)%-(.*)$")
  low, high = values.priority(low or ""), values.priority(high or "")
  if not low or not high then return nil end
  return math.min(low, high), math.max(low, high)
end

-- The highest priority that a text asks for, a range or one; nil when it is neither.
function values.highest(text, default)
  return values.priority(text) or (values.range(text, default))
end

-- "20G", "512M", "16GiB", "4096" (MB) -> bytes; nil when it is no size.
function values.bytes(text)
  local number, unit, rest = text:match("^(%d+)([kKmMgGtT]?)([iI]?[bB]?)$")
  if not number or #number > MOST_SIZE_DIGITS or rest ~= "" and unit == "" or rest:lower() == "i" then return nil end
  local bytes = tonumber(number) * UNITS[unit:upper()]
  return bytes > 0 and bytes <= MOST_BYTES and bytes or nil
end

-- Bytes of such a size as somebody would type it: 20G, 65M; whole kibibytes always, as every size is that.
function values.written(bytes)
  for _, unit in ipairs({ "T", "G", "M" }) do
    if bytes % UNITS[unit] == 0 then return ("%d%s"):format(bytes / UNITS[unit], unit) end
  end
  return ("%dK"):format(bytes / UNITS.K)
end

-- "1.5rest" -> 1, 500000, "rest"
local function decimal(text)
  local whole, places, rest = text:match("^(%d+)%.(%d+)(.*)$")
  if not whole then whole, rest = text:match("^(%d+)(.*)$") end
  if not whole or #whole > 12 or places and #places > 6 then return nil end
  return tonumber(whole), tonumber(((places or "") .. "000000"):sub(1, 6)), rest
end

-- "5%", "0.05" -> 0.05, to a millionth; nil when it is no share.
function values.share(text)
  local whole, millionths, rest = decimal(text)
  local all = rest == "" and 1 or rest == "%" and 100
  if not whole or not all or whole > all or whole == all and millionths > 0 then return nil end
  return math.floor((whole * 1e6 + millionths) / all) / 1e6
end

-- "200us" -> 200000; nil when it is no time, or longer than an hour.
function values.time_ns(text)
  local whole, millionths, unit = decimal(text)
  local ns = whole and TIME_UNITS[unit]
  if not ns or whole * ns > LONGEST_NS or whole * ns == LONGEST_NS and millionths > 0 then return nil end
  return whole * ns + math.floor(millionths * ns / 1e6)
end

-- 1 to 64 letters, digits, dots, underscores or dashes, without a dot in front; nil when it is no such name.
function values.profile(text)
  return #text <= 64 and text:match("^[A-Za-z0-9_-][A-Za-z0-9._-]*$") or nil
end

-- Slurm's NO_VAL and NO_VAL16: a number that was not given, of 32 or 64 bits and of 16.
local NO_VALUE = 4294967294
values.no_value16 = 65534

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

function values.number16(value)
  value = tonumber(value)
  if value == nil or value >= values.no_value16 then return nil end
  return value
end

return values
