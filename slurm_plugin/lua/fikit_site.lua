-- fikit.toml as slurmctld and the clients read it: again for every job, understood again only when its text changed.
--
--   site.config_path()   -> which file that is
--   site.settings(path)  -> [slurm], [oversubscribe] and profile_dir, the defaults for what is not there; for clients and slurmctld
--   site.rules(path)     -> [access]; for slurmctld, which believes only a file that nobody else can write
--   site.groups(user)    -> the set of a user's groups
--   site.log(sentence)   -> into slurmctld's log

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local access = dofile(here .. "/fikit_access.lua")
local toml = dofile(here .. "/fikit_toml.lua")
local values = dofile(here .. "/fikit_values.lua")

local site = {}

local MOST_BYTES = 65536
local MISSING = 2 -- ENOENT
local GROUPS_KEPT_S = 60
local MOST_USERS = 4096

local function whole(least, most)
  return function(value) return type(value) == "number" and value % 1 == 0 and value >= least and value <= most end
end

-- What is read of fikit.toml besides [access]: section, default, and the key where it is called otherwise there
-- (docs/design/contracts.md).
local SETTINGS = {
  gpu_memory_gib = { "slurm", 16 },
  default_share_gib = { "slurm", 4 },
  host_gib = { "oversubscribe", 64 },
  max_factor = { "oversubscribe", 2 },
  oversubscribe = { "oversubscribe", "no", "allow" },
  placement_run_dir = { "placement", "/run/fikit-place", "run_dir" },
  profile_dir = { "daemon", "/var/lib/fikit/profiles" },
}

-- What [oversubscribe] may say (fikitd.config.fikit_toml). Nobody has memory on the host by a section with a mistake.
local OVERSUBSCRIBE = {
  allow = function(value) return value == "no" or value == "lower" end,
  epoch_s = whole(1, 3600),
  host_gib = whole(1, 65536),
  max_factor = whole(1, 16),
}

-- The text, or nil and why. A file that is not there is an empty one.
local function read(path)
  local file, why, code = io.open(path, "r")
  if not file then
    if code == MISSING then return "" end
    return nil, why
  end
  local text, fault = file:read(MOST_BYTES + 1)
  file:close()
  if fault then return nil, fault end -- a directory opens, too
  if text and #text > MOST_BYTES then return nil, "it is longer than 64 KiB" end
  return text or ""
end

local BLANK = "[ \t\r]*"
local LONGEST_LINE = 255

local function ends(rest)
  return rest:match("^" .. BLANK .. "$") or rest:match("^" .. BLANK .. "#")
end

-- `default_priority = "low"`, 'low' or a digit -> the word.
local function priority_of_line(line)
  local value = line:match("^default_priority" .. BLANK .. "=" .. BLANK .. "(.*)$") or ""
  for _, form in ipairs({ '^"([^"]+)"(.*)$', "^'([^']+)'(.*)$", "^([^\"' \t\r#][^ \t\r#]*)(.*)$" }) do
    local word, rest = value:match(form)
    if word and ends(rest) and values.priority(word) then return word end
  end
  return nil
end

-- The line default_priority of [slurm], as text, by the rule of the nodes, which read no other TOML (fikit_site.c): a job that
-- names no priority is asked about as what its node gives it, also where the file is broken elsewhere.
function site.default_priority(text)
  local inside = false
  for line in (text:gsub("%z.*", "") .. "\n"):gmatch("([^\n]*)\n") do
    local begin = #line <= LONGEST_LINE and line:match("^" .. BLANK .. "(.*)$") or ""
    if begin:match("^%[") then
      local rest = begin:match("^%[" .. BLANK .. "slurm" .. BLANK .. "%](.*)$")
      inside = rest and ends(rest)
    elseif inside and priority_of_line(begin) then
      return priority_of_line(begin)
    end
  end
  return nil
end

-- The first key of [oversubscribe] that has no value which it may have; nil where there is none.
local function wrong_oversubscribe(section)
  if section == nil then return nil end
  if type(section) ~= "table" then return "value" end
  local keys = {}
  for key, value in pairs(section) do
    local fits = OVERSUBSCRIBE[key]
    if not fits or not fits(value) then keys[#keys + 1] = tostring(key) end
  end
  table.sort(keys)
  return keys[1]
end

local function settings_of(document)
  local found = { wrong_oversubscribe = wrong_oversubscribe(document.oversubscribe) }
  for key, where in pairs(SETTINGS) do
    local section, default = document[where[1]], where[2]
    local value = type(section) == "table" and section[where[3] or key]
    found[key] = type(value) == type(default) and value or default
  end
  return found
end

function site.config_path()
  return FIKIT_CONFIG or os.getenv("FIKIT_CONFIG") or "/etc/fikit/fikit.toml"
end

local last = {} -- the text that was understood last

function site.settings(path)
  local text = read(path) or ""
  if last.text ~= text then
    last = { text = text, settings = settings_of(toml.parse(text) or {}) }
    last.settings.default_priority = site.default_priority(text) or "normal"
  end
  return last.settings
end

function site.own_uid()
  local status = io.open("/proc/self/status", "r")
  local uid = status and status:read("*a"):match("\nUid:%s*(%d+)")
  if status then status:close() end
  return uid
end

-- Output of a command that cannot take longer than 2 s.
local function output(command)
  local pipe = io.popen("timeout 2 " .. command .. " 2>/dev/null </dev/null", "r")
  local text = pipe and pipe:read("*a") or ""
  if pipe then pipe:close() end
  return text
end

-- Why a file, or its directory, is not to be believed; nil when only root, or who we are, can write both.
local function distrust(path)
  if not path:match("^/[%w_./+-]+$") then return "its name has characters other than letters, digits and _./+-" end
  local directory = path:match("^(.*)/[^/]*$")
  local seen = 0
  for uid, mode in output(("stat -L -c '%%u %%a' -- %s %s/."):format(path, directory)):gmatch("(%d+) (%d+)\n") do
    seen = seen + 1
    if uid ~= "0" and uid ~= site.own_uid() then return "it or its directory belongs to uid " .. uid .. " instead of root" end
    if mode:match("[2367]%d$") or mode:match("[2367]$") then return "others than root can write it or its directory" end
  end
  if seen ~= 2 then return "its owner and mode could not be found out" end
  return nil
end

function site.log(sentence)
  if slurm.log_error then slurm.log_error("fikit: %s", sentence) end
end

-- Per path: the text that was seen last, the rules of the last good one, and those in force.
local known = {}

local function understand(path, text, why)
  local document, rules
  if text then document, why = toml.parse(text) end
  if document then rules, why = access.read(document) end
  if rules and text ~= "" and not rules.free then
    why = distrust(path)
    if why then rules = nil end
  end
  return rules, why
end

function site.rules(path)
  local text, why = read(path)
  local seen = known[path]
  local mark = text or why
  if seen and seen.mark == mark then return seen.rules end
  local rules, fault = understand(path, text, why)
  local good = rules or seen and seen.good
  known[path] = { mark = mark, good = good, rules = good or access.cautious }
  if not rules then
    site.log(("%s cannot be used: %s; until it is mended %s"):format(path, fault,
      good and "the rules of before stay in force" or "nobody gets a priority above normal"))
  end
  return known[path].rules
end

local groups_of, users = {}, 0

-- user: a name or number as slurmctld has it. Nobody's groups when the machine cannot tell: then no rule by group fits.
function site.groups(user)
  user = tostring(user or "")
  if not user:match("^[%w_][%w_.@\\-]*%$?$") then return {} end
  local kept = groups_of[user]
  if kept and os.time() - kept.at < GROUPS_KEPT_S and os.time() >= kept.at then return kept.set end
  local set = {}
  for name in output("id -Gnz -- '" .. user .. "'"):gmatch("[^%z]+") do set[name] = true end
  if next(set) == nil then
    site.log(("the groups of user %s could not be found out: no rule by group is for them now"):format(user))
  end
  if users >= MOST_USERS then groups_of, users = {}, 0 end
  if not kept then users = users + 1 end
  groups_of[user] = { at = os.time(), set = set }
  return set
end

return site
