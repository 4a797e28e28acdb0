-- What slurm.conf gives a job for each GPU that it names, if it says nothing itself: DefCpuPerGPU and DefMemPerGPU.
--
--   conf.gpu_defaults(partitions) -> { cpus =, mem_mib = } for a job of these partitions; each a number or nil
--
-- Slurm gives them to jobs with gres/gpu only, and shows them to no Lua. slurmctld runs job_submit.lua under its locks, so
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

local function defaults_in(words, before)
  return {
    cpus = tonumber(words.defcpupergpu) or before.cpus,
    mem_mib = tonumber(words.defmempergpu) or before.mem_mib,
  }
end

-- What the file and those that it includes say, one line after the other. seen: their texts, by name.
local function collect(name, found, seen, depth)
  local text = read(name)
  seen[name] = text
  for _, line in ipairs(lines_of(text)) do
    local included = line:match("^%s*[Ii][Nn][Cc][Ll][Uu][Dd][Ee]%s+(%S+)")
    local words = words_of(line)
    if included and depth < DEEPEST then
      collect(included:match("^/") and included or name:match("^(.*/)") .. included, found, seen, depth + 1)
    elseif words.partitionname and words.partitionname:upper() == "DEFAULT" then
      found.of_partitions = defaults_in(words, found.of_partitions)
    elseif words.partitionname then
      for partition in words.partitionname:gmatch("[^,]+") do
        found.partitions[partition] = defaults_in(words, found.partitions[partition] or found.of_partitions)
      end
    elseif words.defcpupergpu or words.defmempergpu then
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

-- The largest of what the partitions give: which of them a job starts in is not known yet, and it must get no less.
function conf.gpu_defaults(partitions)
  if not known or changed(known.seen) then
    known = { found = { of_all = {}, of_partitions = {}, partitions = {} }, seen = {} }
    collect(path, known.found, known.seen, 0)
  end
  local most = {}
  for _, partition in ipairs(#partitions > 0 and partitions or { false }) do
    local its = known.found.partitions[partition] or {}
    for _, what in ipairs({ "cpus", "mem_mib" }) do
      local value = its[what] or known.found.of_all[what]
      if value then most[what] = math.max(most[what] or 0, value) end
    end
  end
  return most
end

return conf
