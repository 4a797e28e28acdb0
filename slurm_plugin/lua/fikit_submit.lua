-- What becomes of a job's GPU request: gpu:1 of a sharing job turns into gres/shard, everything else stays as it is.
--
-- slurmctld's job_submit.lua and the clients' cli_filter.lua use this one module:
--   fikit.job_submit(job_desc)  -> slurm.SUCCESS or slurm.ERROR; the authority, the only one that says no
--   fikit.cli_filter(options)   -> slurm.SUCCESS; makes srun ask for what its job has
-- One shard is 1 GiB of GPU memory, so Slurm itself packs sharing jobs by memory.

local fikit = {}

local GIB = 2 ^ 30
local NO_VALUE = 4294967294 -- Slurm's NO_VAL: a number that was not given

-- The same table as fikitd.priorities and fikit_priority.h.
fikit.priorities = { high = 1, normal = 5, low = 8 }

local UNITS = { [""] = 2 ^ 20, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40 }

-- What is read of fikit.toml, with its defaults (docs/design/contracts.md).
local SITE = { gpu_memory_gib = 16, default_share_gib = 4, profile_dir = "/var/lib/fikit/profiles" }
local SECTION = { gpu_memory_gib = "slurm", default_share_gib = "slurm", profile_dir = "daemon" }

function fikit.config_path()
  return FIKIT_CONFIG or os.getenv("FIKIT_CONFIG") or "/etc/fikit/fikit.toml"
end

-- These keys of the file; their defaults for what is not there. fikitd --check-config finds the mistakes.
function fikit.site(path)
  local site = {}
  for key, value in pairs(SITE) do site[key] = value end
  local file = io.open(path or fikit.config_path(), "r")
  if not file then return site end
  local section = ""
  for line in file:lines() do
    section = line:match("^%s*%[%s*([%w_.]+)%s*%]") or section
    local key, text = line:match('^%s*([%w_]+)%s*=%s*"([^"\\]*)"%s*#?.*$')
    if not key then key, text = line:match("^%s*([%w_]+)%s*=%s*([%d_.]+)%s*#?.*$") end
    if key and SECTION[key] == section then
      local number = tonumber((text:gsub("_", "")))
      if type(SITE[key]) == "string" then site[key] = text else site[key] = number or site[key] end
    end
  end
  file:close()
  return site
end

-- "20G", "512M", "16GiB", "4096" (MB) -> bytes; nil when it is no size.
function fikit.bytes(text)
  local number, unit = text:match("^(%d+)([kKmMgGtT]?)[iI]?[bB]?$")
  if not number or text:match("^%d+[iI]?[bB]$") or tonumber(number) == 0 then return nil end
  return tonumber(number) * UNITS[unit:upper()]
end

-- What fikitd.quantities and fikit_quantities.c read, as they do: only whether it is one matters here.
local TIME_UNITS = { ns = 1, us = 1e3, ["\194\181s"] = 1e3, ms = 1e6, s = 1e9 }
local LONGEST_NS = 3600e9

-- "1.5rest" -> 1.5, "rest"
local function decimal(text)
  local whole, places, rest = text:match("^(%d+)%.(%d+)(.*)$")
  if not whole then whole, rest = text:match("^(%d+)(.*)$") end
  if not whole or #whole > 12 or places and #places > 6 then return nil end
  return tonumber(whole .. "." .. (places or "0")), rest
end

local function valid_share(text)
  local number, rest = decimal(text)
  if not number or (rest ~= "" and rest ~= "%") then return false end
  return number <= (rest == "%" and 100 or 1)
end

local function valid_time(text)
  local number, unit = decimal(text)
  return number ~= nil and TIME_UNITS[unit] ~= nil and number * TIME_UNITS[unit] <= LONGEST_NS
end

local function valid_priority(text)
  return fikit.priorities[text] ~= nil or text:match("^%d$") ~= nil
end

local function own_uid()
  local status = io.open("/proc/self/status", "r")
  local uid = status and status:read("*a"):match("\nUid:%s*(%d+)")
  if status then status:close() end
  return uid
end

-- Most GPU memory, in bytes, that the user's last jobs of this name held; nil when nothing is known. fikitd writes the file
-- (fikitd/fikitd/peaks.py) as the user, into the user's directory: it is read with the user's rights, never by slurmctld.
function fikit.peak(site, name)
  local uid = own_uid()
  if not uid or not name or #name > 64 or not name:match("^[%w_-][%w._-]*$") then return nil end
  local file = io.open(site.profile_dir .. "/" .. uid .. "/.memory/" .. name, "r")
  if not file then return nil end
  local most
  for bytes in (file:read(4096) or ""):gmatch("[^\n]* (%d+)\n") do
    most = math.max(most or 0, tonumber(bytes))
  end
  file:close()
  return most
end

-- One request for GPUs, in any spelling of any Slurm version ("gpu:2", "gres:gpu:a100:1", "gres/gpu=1", "gpu").
-- Returns kind ("gpu", "shard", other), type or nil, count.
local function parse_gres(text)
  local rest = text:gsub("^gres[:/]", "")
  local kind = rest:match("^[^:=]+")
  local words = {}
  for word in rest:sub(#kind + 1):gmatch("[^:=]+") do words[#words + 1] = word end
  local count = tonumber(words[#words] or "1")
  if count then words[#words] = nil else count = 1 end
  return kind, words[1], count
end

local function split(text)
  local parts = {}
  for part in (text or ""):gmatch("[^,]+") do parts[#parts + 1] = part end
  return parts
end

-- What a job asks for, over --gres/--gpus-per-node, --gpus and --gpus-per-task.
-- Returns { gpus = number per job on one node, type = , shards = boolean, others = {gres that are no GPUs} }.
local function gpus_of(request)
  local found = { gpus = 0, shards = false, others = {} }
  local function add(text, times)
    for _, part in ipairs(split(text)) do
      local kind, type, count = parse_gres(part)
      if kind == "gpu" then
        found.gpus = math.max(found.gpus, count * times)
        found.type = type or found.type
      elseif kind == "shard" then
        found.shards = true
      else
        found.others[#found.others + 1] = part
      end
    end
  end
  add(request.per_node, 1)
  add(request.per_job, 1)
  add(request.per_task, request.tasks or 1)
  return found
end

-- What the job says; else a tenth more than its like needed; else the site's default.
local function shards_for(request, site)
  if request.mem then return math.ceil(fikit.bytes(request.mem) / GIB) end
  if not request.peak then return site.default_share_gib end
  return math.min(math.max(math.ceil(1.1 * request.peak / GIB), 1), site.gpu_memory_gib)
end

local function invalid_option(request)
  if request.priority and not valid_priority(request.priority) then
    return "--fikit-priority=" .. request.priority .. " is not valid: use high, normal, low, or 0 (highest) to 9"
  end
  if request.mem and not fikit.bytes(request.mem) then
    return "--fikit-mem=" .. request.mem .. " is not valid: use a size such as 20G, 512M or 1T"
  end
  if request.max_slowdown and not valid_share(request.max_slowdown) then
    return "--fikit-max-slowdown=" .. request.max_slowdown .. " is not valid: use a share of 0 to 100 % such as 5% or 0.05"
  end
  if request.max_delay and not valid_time(request.max_delay) then
    return "--fikit-max-delay=" .. request.max_delay .. " is not valid: use a time such as 200us, 1.5ms or 2s"
  end
  return nil
end

-- Why a sharing job cannot have what it asks for, as one sentence, or nil.
local function refusal(request, found, site)
  local option = request.priority and "--fikit-priority" or request.mem and "--fikit-mem"
    or request.profile and "--fikit-profile" or request.max_slowdown and "--fikit-max-slowdown" or "--fikit-max-delay"
  if found.gpus == 0 and not found.shards then
    return option .. " needs a GPU: add --gres=gpu:1"
  end
  if found.gpus > 1 then
    return ("a job that shares its GPU gets one: ask for --gres=gpu:1 instead of %d GPUs, or leave %s out to have them alone")
      :format(found.gpus, option)
  end
  if (request.nodes or 1) > 1 then
    return ("a job that shares its GPU runs on one node: ask for --nodes=1 instead of %d, or leave %s out")
      :format(request.nodes, option)
  end
  if shards_for(request, site) > site.gpu_memory_gib then
    return ("--fikit-mem=%s is more than the %d GiB of a GPU here: ask for less"):format(request.mem, site.gpu_memory_gib)
  end
  return nil
end

-- The one rule. request: priority, mem, profile, max_slowdown, max_delay (text or nil), measure (boolean), peak (bytes or nil), per_node, per_job, per_task (GRES
-- text or nil), nodes, tasks (number or nil), wished (boolean: by FIKIT_* variables alone, which a user sets once for all
-- jobs: where sharing cannot be, the request stays). Returns the job's new per-node GRES, or nil to leave the request alone;
-- and a sentence when the job must be refused.
function fikit.rewrite(request, site)
  local shares = request.priority or request.mem or request.profile or request.max_slowdown or request.max_delay
  if not shares and not request.measure then return nil end
  local found = gpus_of(request)
  local sentence = invalid_option(request)
  if sentence then return nil, sentence end
  if request.measure then
    if found.gpus > 0 or request.wished then return nil end -- a measurement has its GPU for itself
    return nil, "--fikit-measure measures a job alone on its GPU: ask for it with --gres=gpu:1"
  end
  sentence = refusal(request, found, site)
  if sentence and request.wished then return nil end
  if sentence then return nil, sentence end
  if found.shards then return nil end
  local shard = "shard" .. (found.type and ":" .. found.type or "") .. ":" .. shards_for(request, site)
  return table.concat({ shard, unpack(found.others) }, ",")
end

local function given(text)
  if text == nil or text == "" or text == "(null)" or text == "unset" then return nil end
  return text
end

local function true_text(text)
  text = given(text)
  return text ~= nil and text ~= "0" and text:lower() ~= "no" and text:lower() ~= "false"
end

local function number(value)
  value = tonumber(value)
  if value == nil or value >= NO_VALUE then return nil end
  return value
end

-- An option's value as it travels with the job (the plugin sends FIKIT_* variables the same way), else FIKIT_*.
local function sent_option(job_desc, name, variable)
  local key = "_SLURM_SPANK_OPTION_fikit_" .. name:gsub("-", "_") .. "="
  -- A zero-based table: ipairs would miss the first entry.
  for _, entry in pairs(job_desc.spank_job_env or {}) do
    local at = entry:find(key, 1, true)
    if at then return entry:sub(at + #key) end
  end
  -- slurmrestd's jobs never met the plugin. Only batch jobs have an environment here.
  if job_desc.script and job_desc.environment then return job_desc.environment[variable] end
  return nil
end

-- Whether nobody typed an option: the plugin says so, and where it never was there are variables alone.
local function only_wished(job_desc)
  local options = false
  for _, entry in pairs(job_desc.spank_job_env or {}) do
    if entry:find("FIKIT_ONLY_WISHED=1", 1, true) then return true end
    options = options or entry:find("_SLURM_SPANK_OPTION_fikit_", 1, true) ~= nil
  end
  return not options
end

local function prefixed(gres)
  local parts = split(gres)
  for i, part in ipairs(parts) do
    if not part:match("^gres[:/]") then parts[i] = "gres:" .. part end
  end
  return table.concat(parts, ",")
end

function fikit.job_submit(job_desc)
  local measure = sent_option(job_desc, "fikit-measure", "FIKIT_MEASURE")
  local request = {
    priority = given(sent_option(job_desc, "fikit-priority", "FIKIT_PRIORITY")),
    mem = given(sent_option(job_desc, "fikit-mem", "FIKIT_MEM")),
    profile = given(sent_option(job_desc, "fikit-profile", "FIKIT_PROFILE")),
    max_slowdown = given(sent_option(job_desc, "fikit-max-slowdown", "FIKIT_MAX_SLOWDOWN")),
    max_delay = given(sent_option(job_desc, "fikit-max-delay", "FIKIT_MAX_DELAY")),
    measure = measure == "(null)" or true_text(measure),
    per_node = given(job_desc.tres_per_node),
    per_job = given(job_desc.tres_per_job),
    per_task = given(job_desc.tres_per_task),
    nodes = number(job_desc.min_nodes),
    tasks = number(job_desc.num_tasks),
    wished = only_wished(job_desc),
  }
  local gres, sentence = fikit.rewrite(request, fikit.site())
  if sentence then
    slurm.log_user("fikit: %s", sentence)
    return slurm.ERROR
  end
  if gres then
    job_desc.tres_per_node = prefixed(gres)
    -- "" clears; nil would refuse the job.
    if request.per_job then job_desc.tres_per_job = "" end
    if request.per_task then job_desc.tres_per_task = "" end
  end
  return slurm.SUCCESS
end

-- The client's options name GPUs without their kind: "2", "a100:2".
local function gpu_option(text)
  text = given(text)
  return text and "gpu:" .. text
end

-- What a step inside a sharing job gets: its job's shards. nil outside of one.
local function shards_of_job(options)
  local shards = os.getenv("SLURM_SHARDS_ON_NODE")
  local inside = options["type"] == "srun" and given(options["jobid"]) ~= nil
  return inside and shards and "shard:" .. shards or nil
end

-- As Slurm will name the job: after its script or program, if nothing else is said.
local function job_name(options)
  local argv = type(options["argv"]) == "table" and options["argv"] or {}
  local program = argv[0] or argv[1]
  return given(options["job-name"]) or program and program:match("[^/]*$")
end

-- srun sends its GPU request once with the job and once with the step: slurmctld's rewriting reaches only the first.
-- And only here can be read what the user's earlier jobs needed.
-- Never refuses: job_submit does, with the same rule, for every client.
function fikit.cli_filter(options)
  local spank = (options["spank"] or {})["fikit"] or {}
  local request = {
    priority = given(spank["fikit-priority"]) or given(os.getenv("FIKIT_PRIORITY")),
    mem = given(spank["fikit-mem"]) or given(os.getenv("FIKIT_MEM")),
    profile = given(spank["fikit-profile"]) or given(os.getenv("FIKIT_PROFILE")),
    max_slowdown = given(spank["fikit-max-slowdown"]) or given(os.getenv("FIKIT_MAX_SLOWDOWN")),
    max_delay = given(spank["fikit-max-delay"]) or given(os.getenv("FIKIT_MAX_DELAY")),
    measure = given(spank["fikit-measure"]) ~= nil or true_text(os.getenv("FIKIT_MEASURE")),
    per_node = given(options["gres"]) or gpu_option(options["gpus-per-node"]),
    per_job = gpu_option(options["gpus"]),
    per_task = gpu_option(options["gpus-per-task"]),
    nodes = number((options["nodes"] or ""):match("^%d+")),
    tasks = number(options["ntasks"]),
  }
  local site = fikit.site()
  request.peak = fikit.peak(site, request.profile or job_name(options))
  local gres = fikit.rewrite(request, site)
  local inside = shards_of_job(options)
  if inside and gpus_of(request).gpus == 1 then gres = inside end
  if gres then
    options["gres"] = gres
    for _, name in ipairs({ "gpus", "gpus-per-node", "gpus-per-task" }) do
      if given(options[name]) then options[name] = "" end
    end
  end
  return slurm.SUCCESS
end

return fikit
