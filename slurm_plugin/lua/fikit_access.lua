-- Who may ask for which priority: [access] of fikit.toml. fikitd.config.access reads the same file to the same effect; a
-- test compares them on every kind of file.
--
--   access.read(document)         -> rules, or nil and a sentence
--   access.limits(rules, who)     -> what a job may ask for: { highest_priority, min_allowed_slowdown, min_allowed_delay_ns, rule }
--   access.refusal(limits, asked) -> why the job may not have what it asks for, as one sentence, or nil

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local values = dofile(here .. "/fikit_values.lua")

local access = {}

local MOST_RULES = 256
local LONGEST_DELAY_US = 1e7

local function priority_of(value)
  if type(value) == "string" then return values.priorities[value] end
  if type(value) == "number" and value % 1 == 0 and value >= 0 and value <= values.lowest then return value end
  return nil
end

local function share_of(value)
  return type(value) == "string" and values.share(value) or nil
end

local function delay_of(value)
  if type(value) ~= "number" or value % 1 ~= 0 or value < 0 or value > LONGEST_DELAY_US then return nil end
  return value * 1000
end

-- Key in the file -> its name among the limits, and what reads it (nil for what cannot be).
local LIMITS = {
  highest_priority = { "highest_priority", priority_of },
  min_allowed_slowdown = { "min_allowed_slowdown", share_of },
  min_allowed_delay_us = { "min_allowed_delay_ns", delay_of },
}
-- Names that keys had once, by which they are still read.
local FORMER = { lowest_max_slowdown = "min_allowed_slowdown", lowest_max_delay_us = "min_allowed_delay_us" }
-- Names of Slurm's own that it compares without regard to case.
local CONDITIONS = { account = true, qos = true, partition = false, group = false }

-- The name that `key` has today; nil where `written` has it under both of its names.
local function key_of_today(written, key)
  local now = FORMER[key]
  if now == nil then return key end
  if written[now] ~= nil then return nil end
  return now
end

-- One name or a list of them -> a set; nil when it is neither.
local function names_of(value, ignore_case)
  local list = type(value) == "string" and { value } or value
  if type(list) ~= "table" or #list == 0 then return nil end
  local set = {}
  for _, name in ipairs(list) do
    if type(name) ~= "string" or name == "" then return nil end
    set[ignore_case and name:lower() or name] = true
  end
  return set
end

local function read_limit(key, value, into)
  local name, read = LIMITS[key][1], LIMITS[key][2]
  into[name] = read(value)
  return into[name] ~= nil
end

local function read_rule(written, number)
  local rule = { number = number, who = {}, limits = {} }
  if type(written) ~= "table" then return nil, ("rule %d of [access] is no table"):format(number) end
  for key, value in pairs(written) do
    local known
    if CONDITIONS[key] ~= nil then
      rule.who[key] = names_of(value, CONDITIONS[key])
      known = rule.who[key] ~= nil
    else
      local now = key_of_today(written, key)
      known = LIMITS[now] ~= nil and read_limit(now, value, rule.limits)
    end
    if not known then return nil, ("%s in rule %d of [access] is not understood"):format(tostring(key), number) end
  end
  if next(rule.who) == nil then return nil, ("rule %d of [access] names nobody"):format(number) end
  return rule
end

function access.read(document)
  local written = document.access
  if written == nil then written = {} end
  if type(written) ~= "table" then return nil, "access is no section" end
  local found = { highest_priority = 0, min_allowed_slowdown = 0, min_allowed_delay_ns = 0 }
  local rules = {}
  for key, value in pairs(written) do
    local now = key_of_today(written, key)
    if key ~= "rule" and not (LIMITS[now] and read_limit(now, value, found)) then
      return nil, ("%s in [access] is not understood"):format(tostring(key))
    end
  end
  if written.rule ~= nil and (type(written.rule) ~= "table" or #written.rule == 0 or #written.rule > MOST_RULES) then
    return nil, ("[[access.rule]] must be 1 to %d tables"):format(MOST_RULES)
  end
  for number, entry in ipairs(written.rule or {}) do
    local rule, why = read_rule(entry, number)
    if not rule then return nil, why end
    rules[number] = rule
  end
  if #rules > 0 and written.highest_priority == nil then
    return nil, "[access] has rules, but no highest_priority for the jobs that none of them names"
  end
  return { base = found, rules = rules, free = #rules == 0 and found.highest_priority == 0
    and found.min_allowed_slowdown == 0 and found.min_allowed_delay_ns == 0 }
end

-- Until a broken file is mended, and no good one is remembered: nobody above normal.
access.cautious = {
  base = { highest_priority = values.priorities.normal, min_allowed_slowdown = 0, min_allowed_delay_ns = 0 },
  rules = {},
}

local function fits(rule, who)
  for key, names in pairs(rule.who) do
    if key == "group" then
      local member = false
      for group in pairs(who.groups()) do member = member or names[group] == true end
      if not member then return false end
    elseif not names[CONDITIONS[key] and (who[key] or ""):lower() or who[key] or ""] then
      return false
    end
  end
  return true
end

-- who: account, qos, partition (text or nil), groups (a function: the set of the user's groups, asked only if a rule needs it).
-- The first rule that fits decides; what it leaves out is [access]'s.
function access.limits(rules, who)
  local limits = {}
  for key, value in pairs(rules.base) do limits[key] = value end
  for _, rule in ipairs(rules.rules) do
    if fits(rule, who) then
      for key, value in pairs(rule.limits) do limits[key] = value end
      limits.rule = rule.number
      break
    end
  end
  return limits
end

-- "normal, low or a number from 5 to 9"
local function allowed(highest)
  if highest == values.lowest then return "9" end
  local words = {}
  for _, name in ipairs({ "high", "normal", "low" }) do
    if values.priorities[name] >= highest then words[#words + 1] = name end
  end
  words[#words + 1] = ("a number from %d to %d"):format(highest, values.lowest)
  return table.concat(words, ", ", 1, #words - 1) .. (#words > 1 and " or " or "") .. words[#words]
end

local function percent(share)
  return (("%.4f"):format(100 * share):gsub("0+$", ""):gsub("%.$", "")) .. "%"
end

-- asked: priority (a number), priority_text (as the user named it, or nil: the site's default), max_slowdown,
-- max_delay_ns (or nil), job (who it is, for the sentence), named (what the user wrote for an option: fikit_request.lua).
function access.refusal(limits, asked)
  local named = asked.named
  local here_ = (" here (%s; `fikit limits` shows the rules)"):format(asked.job)
  if asked.priority < limits.highest_priority then
    local what = asked.priority_text and named("priority") .. "=" .. asked.priority_text .. " is not for this job"
      or ("a job that names no priority gets %d, which is not for this job"):format(asked.priority)
    return what .. here_ .. ": use " .. named("priority") .. "=" .. allowed(limits.highest_priority)
  end
  if asked.max_slowdown and asked.max_slowdown < limits.min_allowed_slowdown then
    return "so small a " .. named("max_slowdown") .. " is not for this job" .. here_ .. ": use "
      .. percent(limits.min_allowed_slowdown) .. " or more"
  end
  if asked.max_delay_ns and asked.max_delay_ns < limits.min_allowed_delay_ns then
    return "so short a " .. named("max_delay") .. " is not for this job" .. here_ .. ": use "
      .. ("%gus or more"):format(limits.min_allowed_delay_ns / 1000)
  end
  return nil
end

return access
