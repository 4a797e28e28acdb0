-- What slurm.conf gives a job that says nothing itself: DefCpuPerGPU and DefMemPerGPU for each GPU that it names; DefMemPerNode and
-- DefMemPerCPU.
--
--   conf.defaults(partitions) -> { cpus =, mem_mib =, for_node =, for_cpu = } for a job of these partitions; each a number or nil;
--                                the last two are MiB, and nil where one of the partitions gives its jobs all of a node's
--   conf.spreads_shards() -> whether one job may have shards of several GPUs (SelectTypeParameters)
--
-- Slurm gives the first two to jobs with gres/gpu only, and shows them to no Lua. slurmctld runs job_submit.lua under its locks, so
-- asking it (scontrol) from here could wait for this very job: the file is read, as slurm.conf(5) says, again when it changes.

local conf = {}

local DEEPEST = 8 -- of files that include each other
local MOST_BYTES = 16 * 2 ^ 20

-- Slurm reads job_submit.lua beside slurm.conf, and that file is the outermost of those that are being run here.
local function beside_job_submit()
  local found
  for level = 2, 64 do
    local info = debug.getinfo(level, "S")
    if not info then break end
    found = info.source:match("^@(.*)/[^/]*$") or found
  end
  return found and found .. "/slurm.conf"
end

local path = os.getenv("SLURM_CONF") or beside_job_submit() or "/etc/slurm/slurm.conf"

-- Its text, where it can be read. A file that cannot says nothing.
local function read(name)
  local file = io.open(name, "r")
  local text = file and file:read(MOST_BYTES) or ""
  if file then file:close() end
  return text
end

-- Lines without comments, those that a backslash continues put together.
local function lines_of(text)
  local lines, begun = {}, ""
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do
    line = line:gsub("^#.*", ""):gsub("([^\\])#.*", "%1")
    local more = line:match("^(.*)\\%s*$")
    begun = begun .. (more or line)
    if not more then
      lines[#lines + 1], begun = begun, ""
    end
  end
  return lines
end

-- "PartitionName=a DefCpuPerGPU = 4" -> { partitionname = "a", defcpupergpu = "4" }
local function words_of(line)
  local words = {}
  local rest = line:gsub('"([^"]*)"', function(quoted) return (quoted:gsub("%s", "\1")) end):gsub("%s*=%s*", "=")
  for key, value in rest:gmatch("([%w_]+)=(%S+)") do words[key:lower()] = value:gsub("\1", " ") end
  return words
end

local NAMES = { cpus = "defcpupergpu", mem_mib = "defmempergpu", for_node = "defmempernode", for_cpu = "defmempercpu" }

-- Of DefMemPerNode and DefMemPerCPU the last that is said holds, as for Slurm.
local function defaults_in(words, before)
  local found = {}
  for what, name in pairs(NAMES) do
    local text = (words[name] or ""):upper()
    found[what] = text == "UNLIMITED" and 0 or tonumber(text) or before[what]
  end
  if words.defmempernode then found.for_cpu = nil elseif words.defmempercpu then found.for_node = nil end
  return found
end

local function says_any(words)
  for _, name in pairs(NAMES) do
    if words[name] then return true end
  end
  return false
end

-- What the file and those that it includes say, one line after the other. seen: their texts, by name.
local function collect(name, found, seen, depth)
  local text = read(name)
  seen[name] = text
  for _, line in ipairs(lines_of(text)) do
    local included = line:match("^%s*[Ii][Nn][Cc][Ll][Uu][Dd][Ee]%s+(%S+)")
    local words = words_of(line)
    local select = (words.selecttypeparameters or ""):upper()
    found.spreads = found.spreads or select:find("MULTIPLE_SHARING_GRES_PJ", 1, true) ~= nil
    if included and depth < DEEPEST then
      collect(included:match("^/") and included or name:match("^(.*/)") .. included, found, seen, depth + 1)
    elseif words.partitionname and words.partitionname:upper() == "DEFAULT" then
      found.of_partitions = defaults_in(words, found.of_partitions)
    elseif words.partitionname then
      for partition in words.partitionname:gmatch("[^,]+") do
        found.partitions[partition] = defaults_in(words, found.partitions[partition] or found.of_partitions)
      end
    elseif says_any(words) then
      found.of_all = defaults_in(words, found.of_all)
    end
  end
end

local known

local function changed(seen)
  for name, text in pairs(seen) do
    if read(name) ~= text then return true end
  end
  return false
end

-- A partition's own DefMemPerNode or DefMemPerCPU takes the place of both of the cluster's.
local function its_value(its, of_all, what)
  local own = (what == "for_node" or what == "for_cpu") and (its.for_node or its.for_cpu)
  return its[what] or not own and of_all[what] or nil
end

local function read_anew()
  if known and not changed(known.seen) then return end
  known = { found = { of_all = {}, of_partitions = {}, partitions = {} }, seen = {} }
  collect(path, known.found, known.seen, 0)
end

function conf.spreads_shards()
  read_anew()
  return known.found.spreads or false
end

-- The largest of what the partitions give: which of them a job starts in is not known yet, and it must get no less.
function conf.defaults(partitions)
  read_anew()
  local most, bounded = {}, true
  for _, partition in ipairs(#partitions > 0 and partitions or { false }) do
    local its = known.found.partitions[partition] or {}
    for what in pairs(NAMES) do
      local value = its_value(its, known.found.of_all, what)
      if value then most[what] = math.max(most[what] or 0, value) end
    end
    local for_node = its_value(its, known.found.of_all, "for_node")
    bounded = bounded and (for_node or its_value(its, known.found.of_all, "for_cpu") or 0) > 0
  end
  if not bounded then most.for_node, most.for_cpu = nil, nil end
  return most
end

return conf
