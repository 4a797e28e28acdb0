-- How slurmctld's Lua writes what the rule (fikit_request.lua) makes of a job's request.
--
--   convert.apply(job_desc, request, changes)    of a job that is submitted
--   convert.gres(job_desc, request, changes)     of one that waits, and asks for another GPU
--
-- Text fields are cleared by "": nil would refuse the job. Numbers are taken back by Slurm's NO_VAL16.

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local rule = dofile(here .. "/fikit_request.lua")
local values = dofile(here .. "/fikit_values.lua")

local given, number, number16 = values.given, values.number, values.number16

local convert = {}

local MEMORY_BY_DEFAULT = "FIKIT_MEMORY_BY_DEFAULT" -- for fikit_step.c

-- Slurm writes "gres:shard:4" until 23.02 and "gres/shard:4" since, and takes no other spelling: as the job itself has it. Of
-- one that names no GRES (--ntasks-per-gpu alone), its field `gres` writes the release's.
local function set_gres(job_desc, gres)
  local separator
  for _, key in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "mem_per_tres", "cpus_per_tres" }) do
    separator = separator or (given(job_desc[key]) or ""):match("gres([:/])")
  end
  local parts = rule.split(gres)
  for i, part in ipairs(parts) do
    part = part:gsub("^gres[:/]", "")
    parts[i] = separator and "gres" .. separator .. part or part
  end
  job_desc[separator and "tres_per_node" or "gres"] = table.concat(parts, ",")
end

-- What is said for each GPU means nothing to Slurm without gres/gpu.
local function clear_what_is_for_each_gpu(job_desc)
  for _, key in ipairs({ "mem_per_tres", "cpus_per_tres", "tres_freq" }) do
    if given(job_desc[key]) then job_desc[key] = "" end
  end
  if number16(job_desc.ntasks_per_tres) then job_desc.ntasks_per_tres = values.no_value16 end
  local binds = {} -- "gpu:closest", "gres/gpu:per_task:1+gres/nic:per_task:1"
  for bind in (given(job_desc.tres_bind) or ""):gmatch("[^+]+") do
    if not (bind:match("^gpu:") or bind:match("^gres[:/]gpu:")) then binds[#binds + 1] = bind end
  end
  if given(job_desc.tres_bind) then job_desc.tres_bind = table.concat(binds, "+") end
end

-- As many CPUs on the one node. Of a job whose tasks are counted, Slurm heeds CPUs for each task only; the client says by
-- --mincpus what srun was asked for each GPU.
local function give_cpus(job_desc, cpus, tasks)
  cpus = math.max(cpus, number16(job_desc.pn_min_cpus) or 0)
  if cpus == 0 then return end
  if tasks and tasks > 0 then
    local each = math.max(math.ceil(cpus / tasks), number16(job_desc.cpus_per_task) or 1)
    job_desc.cpus_per_task = each
    cpus = each * tasks
  end
  job_desc.min_cpus = math.max(number(job_desc.min_cpus) or 0, cpus)
end

function convert.gres(job_desc, request, changes)
  set_gres(job_desc, changes.per_node)
  for _, name in ipairs({ "per_job", "per_task", "per_socket" }) do
    if request[name] then job_desc["tres_" .. name] = changes[name] end
  end
end

function convert.apply(job_desc, request, changes)
  if changes.per_node then
    convert.gres(job_desc, request, changes)
    clear_what_is_for_each_gpu(job_desc)
    if request.per_socket then job_desc.sockets_per_node = values.no_value16 end -- which --gpus-per-socket needs
  end
  if changes.tasks and not request.tasks then job_desc.num_tasks = changes.tasks end
  give_cpus(job_desc, changes.cpus or 0, request.tasks or changes.tasks or request.tasks_per_node) -- on the one node
  if changes.mem_mib then job_desc.min_mem_per_node = changes.mem_mib end
  -- A batch job's variables do not say what it did not: the step takes away what Slurm makes of the default.
  if changes.mem_mib and not request.mem_per_gpu and job_desc.script and job_desc.environment then
    job_desc.environment[MEMORY_BY_DEFAULT] = "1"
  end
  job_desc.max_nodes = 1 -- or -N1-2, and tasks that fill a node, would give the job shards on two
end

return convert
