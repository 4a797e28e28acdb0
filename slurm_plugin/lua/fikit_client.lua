-- What srun, sbatch and salloc ask for, before they ask: the clients' half of fikit_submit.lua, for Slurm's cli_filter.lua.
--
--   client.filter(options) -> slurm.SUCCESS; makes srun ask for what its job has

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local rule = dofile(here .. "/fikit_request.lua")
local values = dofile(here .. "/fikit_values.lua")
local files = dofile(here .. "/fikit_site.lua")

local given, number, truth = values.given, values.number, values.truth

local client = {}

-- Most GPU memory, in bytes, that the user's last jobs of this name held; nil when nothing is known. fikitd writes the file
-- (fikitd/fikitd/peaks.py) as the user, into the user's directory: it is read with the user's rights, never by slurmctld.
-- A directory is the user's by its owner: where somebody else has the name, it is another one (fikitd/fikitd/own_directory.py).
local READ_PEAKS = [[for own in "$1" "$1".*; do
if [ -d "$own" ] && [ ! -L "$own" ] && [ -O "$own" ]; then exec cat -- "$own/.memory/$2"; fi; done]]

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function peak(site, name)
  local uid = files.own_uid()
  if not uid or not name or #name > 64 or not name:match("^[%w_-][%w._-]*$") then return nil end
  -- By a program that can be given up: shared storage may hang, and a submission must not hang with it.
  local words = { "sh", "-c", READ_PEAKS, "sh", site.profile_dir .. "/" .. uid, name }
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
local function convert(options)
  local spank = (options["spank"] or {})["fikit"] or {}
  local request = {
    priority = given(spank["fikit-priority"]) or given(os.getenv("FIKIT_PRIORITY")),
    mem = given(spank["fikit-mem"]) or given(os.getenv("FIKIT_MEM")),
    profile = given(spank["fikit-profile"]) or given(os.getenv("FIKIT_PROFILE")),
    max_slowdown = given(spank["fikit-max-slowdown"]) or given(os.getenv("FIKIT_MAX_SLOWDOWN")),
    max_delay = given(spank["fikit-max-delay"]) or given(os.getenv("FIKIT_MAX_DELAY")),
    measure = given(spank["fikit-measure"]) ~= nil or truth(os.getenv("FIKIT_MEASURE")),
    per_node = given(options["gres"]) or gpu_option(options["gpus-per-node"]),
    per_job = gpu_option(options["gpus"]),
    per_task = gpu_option(options["gpus-per-task"]),
    nodes = number((options["nodes"] or ""):match("^%d+")),
    tasks = number(options["ntasks"]),
    exclusive = options["exclusive"] == "exclusive",
  }
  local site = files.settings(files.config_path())
  local gres = rule.rewrite(request, site)
  if gres and not request.mem then
    request.peak = peak(site, request.profile or job_name(options))
    gres = rule.rewrite(request, site)
  end
  local inside = shards_of_job(options)
  if inside and rule.gpus_of(request).gpus == 1 then gres = inside end
  if gres then
    options["gres"] = gres
    for _, name in ipairs({ "gpus", "gpus-per-node", "gpus-per-task" }) do
      if given(options[name]) then options[name] = "" end
    end
  end
end

-- Never refuses, whatever happens: job_submit does, with the same rule, for every client.
function client.filter(options)
  local done, fault = pcall(convert, options)
  if not done then files.log(("an error in fikit's Lua: %s; the job is submitted as it is"):format(tostring(fault))) end
  return slurm.SUCCESS
end

return client
