-- What becomes of a job's GPU request in slurmctld: gpu:1 of a sharing job turns into gres/shard, everything else stays as it
-- is; and who may ask for which priority.
--
-- slurmctld's job_submit.lua and the clients' cli_filter.lua use this one module:
--   fikit.job_submit(job_desc, part_list)                       -> slurm.SUCCESS or slurm.ERROR; the authority, which says no
--   fikit.before(job_desc, part_list)                           -> slurm.SUCCESS; before a site's own rules, which then see
--                                                                  what was asked for, also of srun; job_submit after them
--   fikit.asked(job_desc)                                       -> what was asked for, for a site's own rules; at any time
--   fikit.job_modify(job_desc, job_rec, part_list, modify_uid)  -> the same, when a job is changed
--   fikit.cli_filter(options)                                   -> slurm.SUCCESS; the clients' half (fikit_client.lua)
-- One shard is 1 GiB of GPU memory, so Slurm itself packs sharing jobs by memory.

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local access = dofile(here .. "/fikit_access.lua")
local asked_for = dofile(here .. "/fikit_asked.lua")
local options = dofile(here .. "/fikit_options.lua")
local rule = dofile(here .. "/fikit_request.lua")
local values = dofile(here .. "/fikit_values.lua")
local files = dofile(here .. "/fikit_site.lua")
local client = dofile(here .. "/fikit_client.lua")
local gate = dofile(here .. "/fikit_gate.lua")
local convert = dofile(here .. "/fikit_convert.lua")
local slurm_conf = dofile(here .. "/fikit_slurm_conf.lua")

local given, number, number16 = values.given, values.number, values.number16

local fikit = { priorities = values.priorities, cli_filter = client.filter }

local ONE_TASK_PER_SHARING = 2 ^ 38 -- of bitflags since Slurm 23.11: --gres-flags=one-task-per-sharing
local WHOLE_NODE = 0 -- Slurm's JOB_SHARED_NONE: --exclusive
local WHOLE_NODES = 0 -- a partition's max_share: OverSubscribe=EXCLUSIVE
local MEMORY = { "min_mem_per_node", "min_mem_per_cpu" }
local GRES = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }

-- What jobs of its name needed, as the client read it in the user's own directory: bytes, or nil.
local function usual_memory(job)
  for _, entry in pairs(job.spank_job_env or {}) do
    local bytes = entry:match("^FIKIT_USUAL_MEM=(%d+)$")
    if bytes then return tonumber(bytes) end
  end
  return nil
end

-- Whether Slurm may give the tasks of the job shards of several GPUs.
local function spreads(job)
  return math.floor((tonumber(job.bitflags) or 0) / ONE_TASK_PER_SHARING) % 2 == 1 or slurm_conf.spreads_shards()
end

-- What the job asks for; and a sentence when that cannot be said. A job with which options travel goes by them alone, as its
-- node does; of one that never met the plugin (slurmrestd's), variables are wishes, which its node does not see.
local function request_of(job)
  local carried, sentence = options.carried(job)
  local carries = next(carried) ~= nil
  local asked = carries and carried or options.plain(job)
  return {
    carries = carries,
    carried_priority = carried.priority,
    priority = asked.priority,
    mem = asked.mem,
    mem_host = asked.mem_host,
    profile = asked.profile,
    max_slowdown = asked.max_slowdown,
    max_delay = asked.max_delay,
    measure = asked.measure ~= nil,
    variables = options.variables(job),
    peak = usual_memory(job),
    asked_shards = (asked_for.converted(job) or {}).shards,
    per_node = given(job.tres_per_node),
    per_job = given(job.tres_per_job),
    per_task = given(job.tres_per_task),
    per_socket = given(job.tres_per_socket),
    nodes = number(job.min_nodes),
    tasks = number(job.num_tasks),
    tasks_per_node = number16(job.ntasks_per_node),
    sockets = number16(job.sockets_per_node),
    mem_per_gpu = rule.for_each_gpu(given(job.mem_per_tres)),
    cpus_per_gpu = rule.for_each_gpu(given(job.cpus_per_tres)),
    tasks_per_gpu = number16(job.ntasks_per_tres),
    gpu_freq = given(job.tres_freq),
    mem_for_node = number(job.min_mem_per_node),
    mem_for_cpu = number(job.min_mem_per_cpu),
    cpus = number(job.min_cpus),
    has_memory = number(job.min_mem_per_node) ~= nil or number(job.min_mem_per_cpu) ~= nil,
    has_cpus = number16(job.cpus_per_task) ~= nil,
    spreads = spreads(job),
    exclusive = job.shared == WHOLE_NODE,
    -- Slurm hands a heterogeneous job's options on to its further components, also to those that name none.
    wished = options.wished(job) or (number(job.het_job_offset) or 0) > 0,
  }, sentence
end

-- Whether Slurm makes a number of GPUs of the job's tasks.
local function by_tasks(job)
  for _, key in ipairs({ "ntasks_per_tres", "ntasks_per_gpu" }) do
    if (tonumber(job[key]) or 0) % values.no_value16 > 0 then return true end
  end
  return false
end

-- Whether the job's node will write a record: for shards, and for options that travel with a job that may have a GPU, whether
-- it shares it or not. What is in the record has been approved.
local function will_have_record(job, request)
  local gpus = request.exclusive or request.whole_nodes
  for _, key in ipairs(GRES) do gpus = gpus or tostring(job[key]):lower():find("gpu", 1, true) ~= nil end
  gpus = gpus or by_tasks(job)
  return rule.gpus_of(request).shards or request.carries and gpus
end

local function default_partition(part_list)
  for _, part in pairs(part_list or {}) do
    if part.flag_default == 1 then return part.name end
  end
  return nil
end

-- The first of a job's partitions that gives every job whole nodes, or nil. One is enough: Slurm tries a job in each, and
-- where it has tried a sharing one there, it starts it in no other.
local function whole_nodes(partitions, part_list)
  local whole = {}
  for _, part in pairs(part_list or {}) do whole[part.name] = part.max_share == WHOLE_NODES end
  for _, name in ipairs(rule.split(partitions)) do
    if whole[name] then return name end
  end
  return nil
end

local function named(who)
  local words = {}
  for _, key in ipairs({ "account", "qos", "partition" }) do
    if who[key] then words[#words + 1] = key .. " " .. who[key] end
  end
  return #words > 0 and table.concat(words, ", ") or "without account and partition"
end

-- What the node gives a job, or more: one that names no priority gets the site's, one that only measures, alone, the lowest; of a range
-- in which fikitd chooses, the highest.
local function priority_of(request, settings)
  local unnamed = values.priority(settings.default_priority) or values.priorities.normal
  local default = request.carries and request.measure and values.lowest or unnamed
  return math.min(request.carried_priority and values.highest(request.carried_priority, unnamed) or default,
    request.priority and values.highest(request.priority, unnamed) or values.lowest)
end

-- Why a job may not have what will be in its record, or nil. job: account, qos, partition (a list, as Slurm
-- writes it), user.
local function forbidden(request, job, settings)
  if request.carries and request.measure and rule.gpus_of(request).shards then
    return rule.named(request, "measure") .. " measures a job alone on its GPU, and not on shards of one: ask for it with --gres=gpu:1"
  end
  local rules = files.rules(files.config_path())
  if rules.free then return nil end
  local partitions = rule.split(job.partition)
  if #partitions == 0 then partitions = { false } end
  for _, partition in ipairs(partitions) do
    local who = { account = job.account, qos = job.qos, partition = partition or nil,
      groups = function() return files.groups(job.user) end }
    local asked = {
      priority = priority_of(request, settings),
      priority_text = request.priority,
      named = function(name) return rule.named(request, name) end,
      max_slowdown = request.max_slowdown and values.share(request.max_slowdown),
      max_delay_ns = request.max_delay and values.time_ns(request.max_delay),
      job = named(who),
    }
    local sentence = access.refusal(access.limits(rules, who), asked)
    if sentence then return sentence end
  end
  return nil
end

local function say(sentence)
  slurm.log_user("fikit: %s", (sentence:gsub("%c", "?")))
  return slurm.ERROR
end

-- Where Lua ends in an error, Slurm lets the job through as it is: what the site forbids could be had by provoking one. So
-- every error ends here and is named in slurmctld's log. What asks for no shards and has no options of ours goes on; what does,
-- only where the site forbids nothing. jobs: all that say what the job has or wants.
local function after_error(fault, jobs)
  local shares = false
  for _, job in ipairs(jobs) do
    for _, key in ipairs(GRES) do shares = shares or tostring(job[key]):lower():find("shard", 1, true) ~= nil end
    local done, carried = pcall(options.carried, { spank_job_env = job.spank_job_env })
    shares = shares or not done or next(carried) ~= nil
  end
  local known, rules = pcall(files.rules, files.config_path())
  local stays = shares and not (known and rules.free)
  files.log(("an error in fikit's Lua: %s; a job that %s"):format(tostring(fault),
    stays and "asks for shards, or has options of fikit's, was refused" or "needs no permission went on as it was submitted"))
  if not stays then return slurm.SUCCESS end
  return say("an error of fikit's, which slurmctld's log names, keeps jobs from sharing GPUs: tell your administrator, or "
    .. "ask for --gres=gpu:1 without options of fikit's")
end

-- decide(), or what is said above.
local function guarded(jobs, decide)
  local done, result = pcall(decide)
  if done then return result end
  return after_error(result, jobs)
end

-- A user by name, which not every Slurm tells of a job that there is; else by number, which newer Luas write 33.0.
local function user_of(job)
  return given(job.user_name) or job.user_id and ("%d"):format(job.user_id)
end

local function submit(job_desc, part_list)
  local partition = given(job_desc.partition) or default_partition(part_list)
  local request, sentence = request_of(job_desc)
  request.whole_nodes = whole_nodes(partition, part_list)
  request.defaults = slurm_conf.defaults(rule.split(partition))
  local settings = files.settings(files.config_path())
  local changes
  if not sentence then changes, sentence = rule.rewrite(request, settings) end
  if not sentence and (changes or will_have_record(job_desc, request)) then
    sentence = forbidden(request, {
      account = given(job_desc.account) or given(job_desc.default_account),
      qos = given(job_desc.qos) or given(job_desc.default_qos),
      partition = partition,
      user = user_of(job_desc),
    }, settings)
  end
  if sentence then return say(sentence) end
  if changes then convert.apply(job_desc, request, changes) end
  if changes or rule.gpus_of(request).shards then gate.close(job_desc, settings, os.time()) end
  return slurm.SUCCESS
end

function fikit.before(job_desc, part_list)
  local done, fault = pcall(asked_for.restore, job_desc)
  if not done then files.log(("an error in fikit's Lua: %s; the site's rules see the job as it was sent"):format(tostring(fault))) end
  return slurm.SUCCESS
end

-- { gpus = how many GPUs, type = their type or nil, shards = how many shards the user asked for, or nil, shares = whether the
-- job shares its GPU, measures = whether it is measured, priority = its number, if it shares }; gpus = 0 and nothing else true
-- where fikit's Lua ends in an error.
function fikit.asked(job_desc)
  local done, found = pcall(function()
    local request = request_of(job_desc)
    local before = asked_for.converted(job_desc)
    local now = rule.gpus_of(before or request)
    local options_ = request.priority or request.mem or request.mem_host or request.profile or request.max_slowdown or request.max_delay
    local shares = now.shards or options_ ~= nil and not request.measure and now.gpus == 1
    return {
      gpus = now.gpus, type = now.type, shards = now.shards and now.gib or nil, shares = shares, measures = request.measure,
      priority = shares and priority_of(request, files.settings(files.config_path())) or nil,
    }
  end)
  return done and found or { gpus = 0, shares = false, measures = false }
end

function fikit.job_submit(job_desc, part_list)
  return guarded({ job_desc }, function() return submit(job_desc, part_list) end)
end

-- What a change makes of a field: "" puts Slurm's own default in its place.
local function changed(job_desc, job_rec, key)
  local new = job_desc[key]
  if new == nil then return given(job_rec[key]) end
  return given(new) or given(job_desc["default_" .. key])
end

-- What a change leaves of the job's host memory.
local function note_memory(request, job_desc, job_rec)
  local from = job_rec
  for _, key in ipairs(MEMORY) do
    if number(job_desc[key]) then from = job_desc end
  end
  request.mem_for_node, request.mem_for_cpu = number(from.min_mem_per_node), number(from.min_mem_per_cpu)
  request.has_memory = request.mem_for_node ~= nil or request.mem_for_cpu ~= nil
  request.cpus = number(job_desc.min_cpus) or number(job_rec.min_cpus)
end

local function modify_memory(job_desc, job_rec)
  local request, sentence = request_of({ spank_job_env = job_rec.spank_job_env })
  note_memory(request, job_desc, job_rec)
  sentence = not sentence and rule.memory_refusal(request)
  return sentence and say(sentence) or slurm.SUCCESS
end

-- The job as the change leaves it.
local function changed_job(job_desc, job_rec)
  local job = { spank_job_env = job_rec.spank_job_env, shared = job_desc.shared, bitflags = job_rec.bitflags }
  job.num_tasks = number(job_desc.num_tasks) or job_rec.num_tasks
  for _, key in ipairs(GRES) do job[key] = given(job_desc[key]) or job_rec[key] end
  return job
end

-- A sharing job that comes to ask for a GPU gets shards, as where it is submitted: with the GPU it would have that alone, and
-- its programs would be held by their low priority all the same.
local function modify_gres(job_desc, job_rec)
  local request, sentence = request_of(changed_job(job_desc, job_rec))
  local changes
  if not sentence then changes, sentence = rule.rewrite(request, files.settings(files.config_path())) end
  if sentence then return say(sentence) end
  if changes and changes.per_node then convert.gres(job_desc, request, changes) end
  return slurm.SUCCESS
end

local function modify(job_desc, job_rec, part_list)
  local job = changed_job(job_desc, job_rec)
  job.ntasks_per_tres, job.ntasks_per_gpu = job_desc.ntasks_per_tres, job_desc.ntasks_per_gpu
  local partition = given(job_desc.partition) or given(job_rec.partition)
  local request, sentence = request_of(job)
  request.whole_nodes = whole_nodes(partition, part_list)
  if not will_have_record(job, request) then return slurm.SUCCESS end
  sentence = sentence or forbidden(request, {
    account = changed(job_desc, job_rec, "account"),
    qos = changed(job_desc, job_rec, "qos"),
    partition = partition,
    user = user_of(job_rec),
  }, files.settings(files.config_path()))
  if sentence then return say(sentence) end
  return slurm.SUCCESS
end

-- A job that comes to ask for GPUs or shards gets what a submitted one gets, whoever changes it. One that moves to another account, QOS or partition,
-- or comes to have GPUs or shards, must be allowed there what it has; and what it may have in
-- host memory is to stay within its own. What else an operator changes for somebody is the operator's business.
function fikit.job_modify(job_desc, job_rec, part_list, modify_uid)
  for _, key in ipairs(GRES) do
    if given(job_desc[key]) then
      local said = guarded({ job_desc, job_rec }, function() return modify_gres(job_desc, job_rec) end)
      if said ~= slurm.SUCCESS then return said end
      break
    end
  end
  if modify_uid ~= job_rec.user_id then return slurm.SUCCESS end
  for _, key in ipairs({ "min_mem_per_node", "min_mem_per_cpu", "min_cpus" }) do
    if number(job_desc[key]) then
      local said = guarded({ job_desc, job_rec }, function() return modify_memory(job_desc, job_rec) end)
      if said ~= slurm.SUCCESS then return said end
      break
    end
  end
  local changes = job_desc.shared == WHOLE_NODE or by_tasks(job_desc)
  for _, keys in ipairs({ GRES, { "account", "qos", "partition" } }) do
    for _, key in ipairs(keys) do changes = changes or job_desc[key] ~= nil end
  end
  if not changes then return slurm.SUCCESS end
  return guarded({ job_desc, job_rec }, function() return modify(job_desc, job_rec, part_list) end)
end

return fikit
