-- What becomes of a job's request for GPUs: the one rule, for slurmctld and the clients.
--
--   rule.rewrite(request, site) -> what the job asks for instead, or nil to leave it alone; and a sentence to refuse it
--   rule.gpus_of(request)       -> what GPUs and shards it asks for
--   rule.several(request, site) -> why its shards may be on several GPUs, as one sentence, or nil
--   rule.named(request, name)   -> what the user wrote for an option: --fikit-mem-host, or FIKIT_MEM_HOST
--
-- A request is what the fields of slurmctld or the options of a client say, under the same names:
--   priority, mem, mem_host, profile, max_slowdown, max_delay   fikit's options (text or nil)
--   variables                which of these options are FIKIT_* variables, name -> true, or nil
--   measure, wished          booleans; wished: by FIKIT_* variables alone, which a user sets once for all jobs: where sharing
--                            cannot be, the request stays
--   asked_shards             of an srun whose step will ask for so many, or nil
--   peak                     bytes that the user's like jobs needed, or nil
--   per_node, per_job, per_task, per_socket           GRES text or nil
--   nodes, tasks             numbers or nil
--   tasks_per_node, sockets  numbers for each node, or nil
--   mem_per_gpu, cpus_per_gpu, tasks_per_gpu          numbers or nil: MiB, CPUs, tasks for each GPU
--   gpu_freq                 text or nil
--   defaults                 what its partitions give where it says nothing (fikit_slurm_conf.lua); nil: nobody knows
--   mem_for_node, mem_for_cpu, cpus                   host memory that it asks for, MiB, and CPUs: numbers or nil
--   has_memory               whether it says how much memory it needs, in any other way than for each GPU
--   has_cpus                 whether it says how many CPUs each task needs
--   spreads                  whether Slurm may give the tasks of one job shards of several GPUs
--   exclusive                whether it wants the whole node
--   whole_nodes              a partition of the job's that gives every job whole nodes, or nil

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local values = dofile(here .. "/fikit_values.lua")

local rule = {}

local GIB, MIB = 2 ^ 30, 2 ^ 20
local HIGHEST_LOWER = 2 -- as fikitd.config.oversubscribe has it: jobs of 0 and 1, high, have no memory on the host

function rule.named(request, name)
  if (request.variables or {})[name] then return "FIKIT_" .. name:upper() end
  return "--fikit-" .. name:gsub("_", "-")
end

-- The same with its text.
local function worded(request, name)
  return rule.named(request, name) .. "=" .. request[name]
end

-- "4" and "1k" are numbers of GRES for Slurm. All other words are types, "inf" and "0x1" among them, which Lua takes for numbers.
local function count_of(word)
  local digits, unit = word:match("^(%d+)([kKmMgGtTpP]?)$")
  if not digits then return nil end
  return tonumber(digits) * 1024 ^ (unit == "" and 0 or ("kmgtp"):find(unit:lower(), 1, true))
end

-- One request for GPUs, in any spelling of any Slurm version ("gpu:2", "gres:gpu:a100:1", "gres/gpu=1", "gpu").
-- Returns kind ("gpu", "shard", other), type or nil, count.
local function parse_gres(text)
  local rest = text:gsub("^gres[:/]", "")
  local kind = rest:match("^[^:=]*")
  local words = {}
  for word in rest:sub(#kind + 1):gmatch("[^:=]+") do words[#words + 1] = word end
  local count = count_of(words[#words] or "1")
  if count then words[#words] = nil else count = 1 end
  return kind, words[1], count
end

function rule.split(text)
  local parts = {}
  for part in (text or ""):gmatch("[^,]+") do parts[#parts + 1] = part end
  return parts
end

-- The number that mem_per_tres or cpus_per_tres has for each GPU ("gres:gpu:4096", "gres/gpu:2"), or nil.
function rule.for_each_gpu(text)
  local found
  for _, part in ipairs(rule.split(text)) do
    local kind, _, count = parse_gres(part)
    if kind == "gpu" then found = count end
  end
  return found
end

-- One field's GPUs and shards, and the rest of its text. Of GPUs of one type the last count holds, as for Slurm; those of
-- several types add up.
local function read_field(text)
  local field, counts, others = { gpus = 0, shards = 0, shard_types = {} }, {}, {}
  for _, part in ipairs(rule.split(text)) do
    local kind, type, count = parse_gres(part)
    if kind == "gpu" then
      counts[type or ""] = count
      field.type = type or field.type
    elseif kind == "shard" then
      field.shards = math.max(field.shards, count)
      field.shared = true
      field.shard_types[#field.shard_types + 1] = type or "any type"
    else
      others[#others + 1] = part
    end
  end
  local typed = 0
  for type, count in pairs(counts) do typed = typed + (type ~= "" and count or 0) end
  field.gpus = math.max(typed, counts[""] or 0)
  field.rest = table.concat(others, ",")
  return field
end

-- The fields that ask for GRES, and how often each counts on one node.
local FIELDS = {
  per_node = function() return 1 end,
  per_job = function() return 1 end,
  per_task = function(request) return request.tasks or 1 end,
  per_socket = function(request) return request.sockets or 1 end,
}

-- What a job asks for, over --gres, --gpus, --gpus-per-node, -task and -socket, and --ntasks-per-gpu; shards also where no
-- command of Slurm's asks for them.
-- Returns { gpus = number per job on one node, type = , shards = boolean, gib = of those where their number is said,
-- shard_types = of each request for shards, copies = how many tasks or sockets have shards of their own,
-- rest = {field = its text without GPUs and shards} }.
function rule.gpus_of(request)
  local found = { gpus = 0, shards = false, shard_types = {}, copies = 1, rest = {} }
  for name, times in pairs(FIELDS) do
    if request[name] then
      local field = read_field(request[name])
      found.gpus = math.max(found.gpus, field.gpus * times(request))
      found.type = found.type or field.type
      found.shards = found.shards or field.shared or false
      for _, type in ipairs(field.shard_types) do found.shard_types[#found.shard_types + 1] = type end
      if field.shared then found.copies = math.max(found.copies, times(request)) end
      if field.shared and name ~= "per_socket" then found.gib = math.max(found.gib or 0, field.shards * times(request)) end
      found.rest[name] = field.rest
    end
  end
  -- Without any other request Slurm takes as many GPUs as the tasks fill.
  if found.gpus == 0 and not found.shards and request.tasks_per_gpu then
    found.gpus = math.floor((request.tasks or request.tasks_per_gpu) / request.tasks_per_gpu)
  end
  return found
end

-- What the job says; else a tenth more than its like needed; else the site's default. Nobody who says nothing is refused.
local function shards_for(request, site)
  local needed = request.mem and math.ceil(values.bytes(request.mem) / GIB)
  if request.asked_shards then return math.max(math.min(request.asked_shards, site.gpu_memory_gib), needed or 0) end
  if needed then return needed end
  local usual = request.peak and math.max(math.ceil(1.1 * request.peak / GIB), 1) or site.default_share_gib
  return math.ceil(math.min(usual, site.gpu_memory_gib)) -- 4, where newer Luas would write 4.0
end

local function invalid_option(request)
  if request.priority and not values.highest(request.priority, values.priorities.normal) then
    return worded(request, "priority") .. " is not valid: use high, normal, low, 0 (highest) to 9, auto or auto:LOW-HIGH"
  end
  if request.mem and not values.bytes(request.mem) then
    return worded(request, "mem") .. " is not valid: use a size such as 20G, 512M or 1T"
  end
  if request.mem_host and not values.bytes(request.mem_host) then
    return worded(request, "mem_host") .. " is not valid: use a size such as 20G, 512M or 1T"
  end
  if request.profile and not values.profile(request.profile) then
    return worded(request, "profile") .. " is not valid: use 1 to 64 letters, digits, dots, underscores or dashes, "
      .. "without a dot in front"
  end
  if request.max_slowdown and not values.share(request.max_slowdown) then
    return worded(request, "max_slowdown") .. " is not valid: use a share of 0 to 100 % such as 5% or 0.05"
  end
  if request.max_delay and not values.time_ns(request.max_delay) then
    return worded(request, "max_delay") .. " is not valid: use a time such as 200us, 1.5ms or 2s"
  end
  return nil
end

-- How many nodes it needs at least.
local function nodes_of(request)
  local filled = request.tasks_per_node and request.tasks_per_node > 0
    and math.ceil((request.tasks or 1) / request.tasks_per_node) or 1
  return math.max(request.nodes or 1, filled)
end

-- CPUs and host memory (MiB) that a job with one GPU gets for it; nil where nothing says. Slurm's own come after these.
local function of_one_gpu(request)
  local defaults = request.defaults or {}
  return request.cpus_per_gpu or not request.has_cpus and defaults.cpus or nil,
    not request.has_memory and (request.mem_per_gpu or defaults.mem_mib) or nil
end

-- Host memory that a job has on its node, MiB, and whether it asks for that itself; nil where nothing bounds it, as with --mem=0.
local function memory_of(request)
  local cpus, mib = of_one_gpu(request)
  cpus = math.max(request.cpus or 0, cpus or 0)
  mib = request.mem_for_node or request.mem_for_cpu and request.mem_for_cpu * cpus or mib
  if mib then return mib > 0 and mib or nil, request.has_memory or request.mem_per_gpu ~= nil end
  local defaults = request.defaults or {}
  mib = math.max(defaults.for_node or 0, (defaults.for_cpu or 0) * cpus)
  return mib > 0 and mib or nil, false
end

-- Why a job's own memory does not hold what it may have in host memory, as one sentence, or nil.
local function memory_refusal(request, option, host)
  local mib, asks = memory_of(request)
  if not mib or mib * MIB >= host then return nil end
  local needed = math.ceil(host / MIB)
  return ("%s needs %d MiB of host memory, and the job %s: ask for at least --mem=%dM, and what the program itself needs")
    :format(option, needed, asks and ("asks for %d"):format(mib) or ("gets %d where it does not ask"):format(mib), needed)
end

-- The same of a job that was let in: what it may have in host memory, and what it has of that now.
function rule.memory_refusal(request)
  local host = request.mem_host and values.bytes(request.mem_host)
  return host and memory_refusal(request, "--fikit-mem-host=" .. request.mem_host, host) or nil
end

-- Why a job cannot have part of its GPU memory in host memory, as one sentence, or nil.
local function host_refusal(request, site)
  local option, mem = worded(request, "mem_host"), rule.named(request, "mem")
  local host = values.bytes(request.mem_host)
  if site.wrong_oversubscribe then
    return ("%s cannot be had while this site's fikit.toml has a wrong %s in [oversubscribe]: leave it out, and tell your administrator")
      :format(option, site.wrong_oversubscribe)
  end
  if site.oversubscribe ~= "lower" or site.max_factor == 1 then
    return option .. " is not allowed here: leave it out, and ask with " .. mem .. " for all that the job needs"
  end
  if not request.mem then return option .. " needs " .. mem .. ": say what of the job's memory has a place on the GPU" end
  local unnamed = request.measure and tostring(values.lowest) or site.default_priority
  if values.highest(request.priority or unnamed, values.priorities.normal) < HIGHEST_LOWER then
    return option .. " is for jobs below high: ask for a lower " .. rule.named(request, "priority") .. ", or leave it out"
  end
  if host > site.host_gib * GIB then
    return ("%s is more than the %d GiB of host memory that a job may have for it here: ask for less"):format(option, site.host_gib)
  end
  local most = (site.max_factor - 1) * values.bytes(request.mem)
  if host > most then
    return ("%s is more than %s allows here, where a job has at most %d times its %s in all: ask for at most %s, or for a larger %s")
      :format(option, worded(request, "mem"), site.max_factor, mem, values.written(most), mem)
  end
  return memory_refusal(request, option, host)
end

-- Why a sharing job cannot have what it asks for, as one sentence, or nil.
local function refusal(request, found, site)
  local first = request.priority and "priority" or request.mem and "mem" or request.mem_host and "mem_host"
    or request.profile and "profile" or request.max_slowdown and "max_slowdown" or "max_delay"
  local option = rule.named(request, first)
  if found.gpus == 0 and not found.shards then
    return option .. " needs a GPU: add --gres=gpu:1"
  end
  if found.gpus > 1 then
    return ("a job that shares its GPU gets one: ask for --gres=gpu:1 instead of %d GPUs, or leave %s out to have them alone")
      :format(found.gpus, option)
  end
  if nodes_of(request) > 1 then
    return ("a job that shares its GPU runs on one node: ask for --nodes=1 instead of %d, or leave %s out")
      :format(nodes_of(request), option)
  end
  if request.gpu_freq then -- Slurm refuses it for shards, without saying why
    return ("a job that shares its GPU cannot set its frequency for the others on it: leave --gpu-freq or %s out"):format(option)
  end
  if request.exclusive then -- Slurm would let it wait for ever: it gives such a job all GPUs and all shards, which exclude each other
    return ("a job that shares its GPU cannot have the node alone: leave --exclusive or %s out"):format(option)
  end
  if request.whole_nodes then
    return ("partition %s gives every job whole nodes, where no job shares a GPU: leave it or %s out"):format(
      request.whole_nodes, option)
  end
  if request.mem and found.gib and shards_for(request, site) > found.gib then
    return ("%s is more than the %d shards, of 1 GiB each, that the job asks for: ask for --gres=gpu:1, or for shard:%d")
      :format(worded(request, "mem"), found.gib, shards_for(request, site))
  end
  if shards_for(request, site) > site.gpu_memory_gib then
    return ("%s is more than the %d GiB of a GPU here: ask for less"):format(worded(request, "mem"), site.gpu_memory_gib)
  end
  return request.mem_host and host_refusal(request, site) or nil
end

-- A job of several GPUs shares none of them yet, and a part of it would run unmanaged.
function rule.several(request, site)
  local found = rule.gpus_of(request)
  local one = "and a job that shares its GPU gets one"
  local types = found.shard_types
  table.sort(types)
  if types[1] ~= types[#types] then
    return ("shards of %s and of %s may be on two GPUs, %s: ask for shards of one type"):format(types[1], types[#types], one)
  end
  if request.spreads and found.copies > 1 then
    return ("shards for each of %d tasks may be on several GPUs here, %s: ask for the job's shards with --gres=shard:%d")
      :format(found.copies, one, math.min(found.gib or site.default_share_gib, site.gpu_memory_gib))
  end
  if (found.gib or 0) > site.gpu_memory_gib then
    return ("%d shards are more than the %d of a GPU here, %s: ask for at most --gres=shard:%d")
      :format(found.gib, site.gpu_memory_gib, one, site.gpu_memory_gib)
  end
  return nil
end

-- What a job with one GPU gets of what was asked for, or is the site's default, for each GPU.
local function for_one_gpu(request, changes)
  changes.cpus, changes.mem_mib = of_one_gpu(request)
  changes.tasks = request.tasks_per_gpu
end

-- The one rule. Returns nil to leave the request alone, or what to ask for instead: { per_node, per_job, per_task, per_socket: the texts of
-- those that were there (per_node always, but for a request for shards, whose texts stay), cpus, mem_mib, tasks: on the one
-- node, or nil }; and a sentence when the job must be refused.
function rule.rewrite(request, site)
  local several = rule.several(request, site)
  if several then return nil, several end
  local shares = request.priority or request.mem or request.mem_host or request.profile or request.max_slowdown or request.max_delay
  if not shares and not request.measure then return nil end
  local found = rule.gpus_of(request)
  local sentence = invalid_option(request)
  if sentence then return nil, sentence end
  if request.measure then
    if request.wished then return nil end
    if found.gpus > 0 then return nil, request.mem_host and host_refusal(request, site) or nil end -- it has its GPU for itself
    return nil, rule.named(request, "measure") .. " measures a job alone on its GPU: ask for it with --gres=gpu:1"
  end
  sentence = refusal(request, found, site)
  -- Shards stay shards: the client has asked for them (cli_filter knows no partitions), and the job would wait for ever.
  if sentence and request.wished and not (found.shards and request.whole_nodes) then return nil end
  if sentence then return nil, sentence end
  local changes = {}
  for_one_gpu(request, changes)
  if found.shards then return changes end
  for name, rest in pairs(found.rest) do changes[name] = rest end
  local shard = "shard" .. (found.type and ":" .. found.type or "") .. ":" .. shards_for(request, site)
  local rest = found.rest.per_node or ""
  changes.per_node = rest == "" and shard or shard .. "," .. rest
  return changes
end

return rule
