-- What srun, sbatch and salloc ask for, before they ask: the clients' half of fikit_submit.lua, for Slurm's cli_filter.lua.
--
--   client.filter(options) -> slurm.SUCCESS
--
-- What sbatch and salloc ask for stays as it is typed: slurmctld converts it. Not so srun: it asks once for the job and once
-- more for the step, and slurmctld's Lua sees only the first. So here
--   an srun that makes a job asks for what its job will have, in both;
--   a step of a job that shares asks for its job's shards, where it asks for a GPU in any form (or its job's variables do).

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local rule = dofile(here .. "/fikit_request.lua")
local values = dofile(here .. "/fikit_values.lua")
local files = dofile(here .. "/fikit_site.lua")

local given, number, truth = values.given, values.number, values.truth

local client = {}

local MIB = 2 ^ 20
local SCONTROL_S = 10
local NAME_BYTES, FILE_NAME_BYTES = 128, 200
local UNNAMED = { sbatch = "sbatch", salloc = "interactive" }

-- Slurm's options that mean GPUs, and whether they are numbers: those cannot be set to nothing.
local FOR_GPUS = {
  ["gpus"] = "text", ["gpus-per-node"] = "text", ["gpus-per-task"] = "text", ["gpus-per-socket"] = "text",
  ["gpu-bind"] = "text", ["tres-bind"] = "text", ["gpu-freq"] = "text",
  ["mem-per-gpu"] = "number", ["cpus-per-gpu"] = "number", ["ntasks-per-gpu"] = "number", ["ntasks-per-tres"] = "number",
}

-- The SPANK plugin's file as Slurm has loaded it: a copy elsewhere has variables of its own, and tells nobody what it is told.
local function loaded_plugin()
  local maps, found = io.open("/proc/self/maps"), nil
  if not maps then return nil end
  for line in maps:lines() do
    found = found or line:match("%s(/.*/spank_fikit%.so)$")
  end
  maps:close()
  return found
end

-- A function of the SPANK plugin's (src/contexts/fikit_lua.h), or nil. Where Slurm loads the plugin under another name, the file beside this one
-- does what needs no variable.
local function native(name)
  if not (package and package.loadlib) then return nil end
  local from, symbol = loaded_plugin(), "fikit_lua_" .. name
  return from and package.loadlib(from, symbol) or package.loadlib(here .. "/spank_fikit.so", symbol) or nil
end

-- A job's name as the name of its file, as fikitd.profiles.memory_history.file_name has it; "" for no name. What is no letter,
-- digit or one of ._- is %XX, a byte each.
function client.file_name(name)
  if #name > NAME_BYTES then -- as the job's record has it, which cuts no character
    name = name:sub(1, NAME_BYTES + 1):gsub("[\192-\255]?[\128-\191]*$", "", 1):sub(1, NAME_BYTES)
  end
  local safe = name:gsub("[^A-Za-z0-9._-]", function(byte) return ("%%%02X"):format(byte:byte()) end)
  return (safe:gsub("^%.", "%%2E"):sub(1, FILE_NAME_BYTES))
end

-- Most GPU memory, in bytes, that the user's last jobs of this name held; nil when nothing is known. fikitd writes the file
-- (fikitd/fikitd/profiles/memory_history.py) as the user, into the user's directory: it is read with the user's rights, never by
-- slurmctld. A directory is the user's by its owner: where somebody else has the name, it is another one
-- (fikitd/fikitd/store/own_directory.py).
local READ_PEAKS = [[for own in "$1" "$1".*; do
if [ -d "$own" ] && [ ! -L "$own" ] && [ -O "$own" ]; then exec cat -- "$own/.memory/$2"; fi; done]]

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function peak(site, name)
  local uid = files.own_uid()
  if not uid or not name or name == "" then return nil end
  -- By a program that can be given up: shared storage may hang, and a submission must not hang with it.
  local words = { "sh", "-c", READ_PEAKS, "sh", site.profile_dir .. "/" .. uid, client.file_name(name) }
  for i, word in ipairs(words) do words[i] = quoted(word) end
  local file = io.popen("exec timeout -s KILL 0.5 " .. table.concat(words, " ") .. " 2>/dev/null", "r")
  if not file then return nil end
  local most
  for bytes in (file:read(4096) or ""):gmatch("[^\n]* (%d+)\n") do
    if #bytes <= 16 then most = math.max(most or 0, tonumber(bytes)) end
  end
  file:close()
  return most
end

-- As Slurm names the job: after its script or program, if nothing else is said; else after what it is.
local function job_name(options)
  local argv = type(options["argv"]) == "table" and options["argv"] or {}
  local program = argv[0] or argv[1]
  return given(options["job-name"]) or options["type"] == "sbatch" and given(options["wrap"]) and "wrap"
    or options["type"] ~= "salloc" and program and program:match("[^/]*$") or UNNAMED[options["type"]]
end

-- A number that was given. Slurm has 0, or -2 (NO_VAL in an int), for one that was not.
local function positive(text)
  local value = number(text)
  return value and value > 0 and value or nil
end

-- The options name GPUs without their kind: "2", "a100:2", "a100:1,h100:1".
local function gpus(text)
  local parts = rule.split(given(text))
  for i, part in ipairs(parts) do
    if not part:match("^gres[:/]") then parts[i] = "gpu:" .. part end
  end
  return table.concat(parts, ",")
end

-- Several texts of requests as one, or nil.
local function joined(...)
  local found = {}
  for _, text in ipairs({ ... }) do
    text = given(text)
    if text and text:lower() ~= "none" then found[#found + 1] = text end
  end
  return given(table.concat(found, ","))
end

local function request_of(options)
  local spank = (options["spank"] or {})["fikit"] or {}
  local function option(name)
    return given(spank["fikit-" .. name]) or given(os.getenv("FIKIT_" .. name:upper():gsub("-", "_")))
  end
  local for_each = values.bytes(given(options["mem-per-gpu"]) or "")
  return {
    priority = option("priority"),
    mem = option("mem"),
    mem_host = option("mem-host"),
    profile = option("profile"),
    max_slowdown = option("max-slowdown"),
    max_delay = option("max-delay"),
    measure = given(spank["fikit-measure"]) ~= nil or truth(os.getenv("FIKIT_MEASURE")),
    per_node = joined(gpus(options["gpus-per-node"]), options["gres"]),
    per_job = joined(gpus(options["gpus"])),
    per_task = joined(gpus(options["gpus-per-task"]), options["tres-per-task"]),
    per_socket = joined(gpus(options["gpus-per-socket"])),
    nodes = number((options["nodes"] or ""):match("^%d+")),
    tasks = number(options["ntasks"]),
    tasks_per_node = positive(options["ntasks-per-node"]),
    sockets = positive(options["sockets-per-node"]),
    mem_per_gpu = for_each and for_each / MIB,
    cpus_per_gpu = positive(options["cpus-per-gpu"]),
    tasks_per_gpu = positive(options["ntasks-per-gpu"]) or positive(options["ntasks-per-tres"]),
    gpu_freq = given(options["gpu-freq"]),
    has_memory = values.bytes(given(options["mem"]) or "") ~= nil or values.bytes(given(options["mem-per-cpu"]) or "") ~= nil,
    exclusive = options["exclusive"] == "exclusive",
  }
end

local function was_given(options, name)
  local value = given(options[name])
  if name == "tres-bind" then return value ~= nil and value:find("gpu", 1, true) ~= nil end
  if FOR_GPUS[name] == "text" then return value ~= nil end
  return positive(value) ~= nil or values.bytes(value or "") ~= nil
end

-- The variables that srun gives to its tasks for an option (since 23.02: set_env_from_opts in src/common/env.c), name -> value.
local function variables_of(name, value)
  if name == "mem-per-gpu" then return { SLURM_MEM_PER_GPU = ("%d"):format(values.bytes(value) / MIB) } end
  if name == "tres-bind" then return { SLURM_TRES_BIND = value } end
  if name == "gpu-bind" then return { SLURM_TRES_BIND = "gres/gpu:" .. value } end
  if name:match("^ntasks") then return { SLURM_TRES_BIND = "gres/gpu:single:" .. value } end
  if name == "gpus-per-task" then
    local type, count = value:match("^(.*):(%d+)$")
    count = count or value
    return { SLURM_TRES_PER_TASK = ("gres/gpu%s=%s"):format(type and ":" .. type or "", count),
      SLURM_TRES_BIND = "gres/gpu:per_task:" .. count }
  end
  return { ["SLURM_" .. name:upper():gsub("-", "_")] = value }
end

-- Makes options that mean GPUs as if nobody had given them, or changes nothing and returns false.
local function take_back_gpus(options, rest)
  local meta = getmetatable(options)
  local pointer = type(meta) == "table" and meta._opt
  local take_back = pointer and native("take_back")
  local export, export_tasks = native("export"), native("export_tasks")
  local names = {}
  for name, kind in pairs(FOR_GPUS) do
    if was_given(options, name) then
      if kind == "number" and not take_back then return false end
      names[#names + 1] = name
    end
  end
  if was_given(options, "gpus-per-socket") and take_back then take_back(pointer, "sockets-per-node") end -- which it needs
  for _, name in ipairs(names) do
    local value = options[name]
    for variable, text in pairs(export and variables_of(name, value) or {}) do export(variable, text) end
    if name:match("^ntasks") and export_tasks then export_tasks(value) end
    if not (take_back and take_back(pointer, name)) then options[name] = "" end
  end
  local per_task = given(options["tres-per-task"])
  if per_task then
    if export then export("SLURM_TRES_PER_TASK", per_task) end
    if rest.per_task ~= "" or not (take_back and take_back(pointer, "tres-per-task")) then
      options["tres-per-task"] = rest.per_task
    end
  end
  return true
end

-- One GPU's worth of what was said for each GPU, in options that need none.
local function ask_for_one_gpu(options, request, changes, gres)
  local rest = rule.gpus_of(request).rest
  if not take_back_gpus(options, rest) then
    files.log("srun cannot share a GPU with --mem-per-gpu, --cpus-per-gpu or --ntasks-per-gpu here, because spank_fikit.so is "
      .. "neither loaded nor beside " .. here .. "/fikit_client.lua: say --mem, --cpus-per-task and --ntasks instead")
    return
  end
  if gres then options["gres"] = gres end
  if changes.mem_mib then options["mem"] = ("%dM"):format(changes.mem_mib) end
  if changes.cpus then options["mincpus"] = ("%d"):format(changes.cpus) end
  if changes.tasks then options["ntasks"] = ("%d"):format(changes.tasks) end
  -- A step of its own CPUs only (--exact) has those of its GPU since 23.02; any other has all of its job's.
  local export = request.cpus_per_gpu and options["exact"] == "set" and native("export")
  if export and export("SLURM_CPUS_PER_GPU", ("%d"):format(request.cpus_per_gpu)) then
    options["cpus-per-task"] = ("%d"):format(math.ceil(request.cpus_per_gpu / (changes.tasks or request.tasks or 1)))
  end
end

-- What the rule makes of a job's request, and how much memory jobs of its name needed, where that counts.
local function job_changes(options, request, site)
  local changes = rule.rewrite(request, site)
  if not changes or not changes.per_node or request.mem then return changes end
  request.peak = peak(site, request.profile or job_name(options))
  return rule.rewrite(request, site)
end

-- What slurmctld gives a job by default, and Slurm its steps, is in no variable, as without fikit: fikit_step.c sees to it.
local function leave_memory_unsaid(request)
  local export = not request.has_memory and not request.mem_per_gpu and native("export")
  if export then export("FIKIT_MEMORY_BY_DEFAULT", "1") end
end

-- What slurmctld's Lua shows to a site's own rules (fikit_asked.lua).
local function say_asked(request, changes)
  local parts = { ("%d"):format(rule.gpus_of({ per_node = changes.per_node }).gib) }
  for _, name in ipairs({ "per_node", "per_job", "per_task", "per_socket" }) do
    if request[name] then parts[#parts + 1] = name .. "=" .. request[name] end
  end
  if #parts == 1 then parts[2] = "per_node=gpu:1" end -- by --ntasks-per-gpu alone
  local say = native("say_asked")
  if say then say(table.concat(parts, ";")) end
end

local function convert_job(options, request)
  local forget = native("say_asked") -- of the component before
  if forget then forget("") end
  local changes = job_changes(options, request, files.settings(files.config_path()))
  if not changes or not changes.per_node then return end
  if options["type"] == "srun" then
    say_asked(request, changes)
    ask_for_one_gpu(options, request, changes, changes.per_node)
    leave_memory_unsaid(request)
  elseif request.peak then
    local say = native("say_usual_memory")
    if say then say(("%d"):format(request.peak)) end
  end
end

-- The shards per node that each component of a job has, by its offset (0 for a job that is not heterogeneous); nil where
-- Slurm did not answer.
local function shards_of_components(job)
  if not job:match("^[%d_+]+$") then return nil end
  local pipe = io.popen(("timeout %d scontrol show job -o %s 2>/dev/null </dev/null"):format(SCONTROL_S, job), "r")
  if not pipe then return nil end
  local found = {}
  for line in pipe:lines() do
    local asked = line:match("%sTresPerNode=(%S+)")
    found[tonumber(line:match("%sHetJobOffset=(%d+)") or 0)] = rule.gpus_of({ per_node = asked }).gib or false
  end
  pipe:close()
  return found
end

-- What the step's job has: a number of shards; "all" where several components share, with shards of their own; nil where it
-- does not share. A program of the job has a variable that says so; elsewhere Slurm is asked, and only if there is a reason:
-- salloc's shell has fikit's options, a step from outside another job's number.
local function shards_of_job(options, request)
  local job = options["jobid"]
  local own = job == os.getenv("SLURM_JOB_ID") or job == os.getenv("SLURM_JOBID")
  local heterogeneous = given(os.getenv("SLURM_HET_SIZE")) or given(os.getenv("SLURM_PACK_SIZE"))
  if own and not heterogeneous then
    local shards = tonumber(os.getenv("SLURM_SHARDS_ON_NODE") or "")
    if shards then return shards end
    if given(os.getenv("SLURMD_NODENAME")) then return nil end
    if not (request.priority or request.mem or request.mem_host or request.profile or request.max_slowdown or request.max_delay) then return nil end
  end
  local components = shards_of_components(job) or {}
  local group = given(options["het-group"]) or given(options["pack-group"]) or "0"
  if tonumber(group) then return components[tonumber(group)] or nil end
  for _, shards in pairs(components) do
    if not shards then return nil end
  end
  return next(components) and "all" or nil
end

local function convert_step(options, request)
  if os.getenv("SLURM_SHARDS_ON_NODE") then leave_memory_unsaid(request) end
  local found = rule.gpus_of(request)
  local asks = found.gpus > 0
  for name in pairs(FOR_GPUS) do asks = asks or was_given(options, name) end
  if not asks or found.gpus > 1 then return end
  local shards = shards_of_job(options, request)
  if not shards then return end
  local changes = {}
  if not request.has_memory then changes.mem_mib = request.mem_per_gpu end
  if request.tasks == 1 and not os.getenv("SLURM_NTASKS") then changes.tasks = request.tasks_per_gpu end
  local gres = joined(shards ~= "all" and found.gpus == 1 and "shard:" .. shards or nil, found.rest.per_node)
  ask_for_one_gpu(options, request, changes, gres or given(options["gres"]) and "")
end

local function convert(options)
  local request = request_of(options)
  if options["type"] == "srun" and given(options["jobid"]) then return convert_step(options, request) end
  return convert_job(options, request)
end

-- Never refuses, whatever happens: job_submit does, with the same rule, for every client.
function client.filter(options)
  local done, fault = pcall(convert, options)
  if not done then files.log(("an error in fikit's Lua: %s; the job is submitted as it is"):format(tostring(fault))) end
  return slurm.SUCCESS
end

return client
