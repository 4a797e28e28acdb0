-- What becomes of a job's GPU request in slurmctld: gpu:1 of a sharing job turns into gres/shard, everything else stays as it
-- is; and who may ask for which priority.
--
-- slurmctld's job_submit.lua and the clients' cli_filter.lua use this one module:
--   fikit.job_submit(job_desc, part_list)                       -> slurm.SUCCESS or slurm.ERROR; the authority, which says no
--   fikit.job_modify(job_desc, job_rec, part_list, modify_uid)  -> the same, when a job is changed
--   fikit.cli_filter(options)                                   -> slurm.SUCCESS; the clients' half (fikit_client.lua)
-- One shard is 1 GiB of GPU memory, so Slurm itself packs sharing jobs by memory.

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local access = dofile(here .. "/fikit_access.lua")
local rule = dofile(here .. "/fikit_request.lua")
local values = dofile(here .. "/fikit_values.lua")
local files = dofile(here .. "/fikit_site.lua")
local client = dofile(here .. "/fikit_client.lua")

local given, number, truth = values.given, values.number, values.truth

local fikit = { priorities = values.priorities, cli_filter = client.filter }

local WHOLE_NODE = 0 -- Slurm's JOB_SHARED_NONE: --exclusive
local WHOLE_NODES = 0 -- a partition's max_share: OverSubscribe=EXCLUSIVE
local GRES = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }

local OPTIONS = { "priority", "measure", "mem", "profile", "max_slowdown", "max_delay" }
local CARRIED = "_SLURM_SPANK_OPTION_fikit_fikit_"

-- Only batch jobs have an environment here.
local function variables_of(job)
  return job.script and job.environment or {}
end

-- The options as they travel with the job (the plugin sends FIKIT_* variables the same way), for the prolog and, in a batch
-- job's environment, for its first step: name -> value. And a sentence where a client sent one twice: the node would take
-- one of the two and we the other.
local function carried_options(job)
  local found, twice = {}, nil
  local function add(name, value)
    local flag = name == "measure" -- whose value is whatever Slurm puts there
    if found[name] and value and found[name] ~= value and not flag then
      twice = ("--fikit-%s was sent twice, as %s and %s: use Slurm's own commands"):format(
        name:gsub("_", "-"), found[name], value)
    end
    found[name] = found[name] or value
  end
  -- A zero-based table: ipairs would miss the first entry.
  for _, entry in pairs(job.spank_job_env or {}) do
    local name, value = entry:match(CARRIED .. "([%w_]+)=(.*)$")
    if name then add(name, value) end
  end
  local variables = variables_of(job)
  for _, name in ipairs(OPTIONS) do add(name, variables[CARRIED .. name]) end
  return found, twice
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
  local parts = rule.split(gres)
  for i, part in ipairs(parts) do
    if not part:match("^gres[:/]") then parts[i] = "gres:" .. part end
  end
  return table.concat(parts, ",")
end

-- What the job asks for; and a sentence when that cannot be said.
local function request_of(job)
  local carried, twice = carried_options(job)
  local variables = variables_of(job)
  local function option(name)
    return carried[name] or variables["FIKIT_" .. name:upper()] -- slurmrestd's jobs never met the plugin
  end
  local measure = option("measure")
  return {
    priority = given(option("priority")),
    carried_priority = given(carried.priority),
    mem = given(option("mem")),
    profile = given(option("profile")),
    max_slowdown = given(option("max_slowdown")),
    max_delay = given(option("max_delay")),
    measure = measure == "(null)" or truth(measure),
    per_node = given(job.tres_per_node),
    per_job = given(job.tres_per_job),
    per_task = given(job.tres_per_task),
    per_socket = given(job.tres_per_socket),
    nodes = number(job.min_nodes),
    tasks = number(job.num_tasks),
    exclusive = job.shared == WHOLE_NODE,
    -- Slurm hands a heterogeneous job's options on to its further components, also to those that name none.
    wished = only_wished(job) or (number(job.het_job_offset) or 0) > 0,
  }, twice
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

-- Why the site does not let a sharing job have what it asks for, or nil. job: account, qos, partition (a list, as Slurm
-- writes it), user.
local function forbidden(request, job, settings)
  local rules = files.rules(files.config_path())
  if rules.free then return nil end
  local default = values.priority(settings.default_priority) or values.priorities.normal
  local partitions = rule.split(job.partition)
  if #partitions == 0 then partitions = { false } end
  for _, partition in ipairs(partitions) do
    local who = { account = job.account, qos = job.qos, partition = partition or nil,
      groups = function() return files.groups(job.user) end }
    local asked = {
      -- What did not travel as an option does not reach the node, which gives the default.
      priority = math.min(request.carried_priority and values.priority(request.carried_priority) or default,
        request.priority and values.priority(request.priority) or values.lowest),
      priority_text = request.priority,
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
  slurm.log_user("fikit: %s", sentence)
  return slurm.ERROR
end

-- Where Lua ends in an error, Slurm lets the job through as it is: what the site forbids could be had by provoking one. So
-- every error ends here and is named in slurmctld's log. What asks for no shards has its GPU to itself and goes on; what
-- does, only where the site forbids nothing. jobs: all that say what the job has or wants.
local function after_error(fault, jobs)
  local shares = false
  for _, job in ipairs(jobs) do
    for _, key in ipairs(GRES) do shares = shares or tostring(job[key]):lower():find("shard", 1, true) ~= nil end
  end
  local known, rules = pcall(files.rules, files.config_path())
  local stays = shares and not (known and rules.free)
  files.log(("an error in fikit's Lua: %s; a job that %s"):format(tostring(fault),
    stays and "asks for shards was refused" or "needs no permission went on as it was submitted"))
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

local function submit(job_desc, part_list)
  local partition = given(job_desc.partition) or default_partition(part_list)
  local request, sentence = request_of(job_desc)
  request.whole_nodes = whole_nodes(partition, part_list)
  local settings = files.settings(files.config_path())
  local gres
  if not sentence then gres, sentence = rule.rewrite(request, settings) end
  if not sentence and (gres or rule.gpus_of(request).shards) then
    sentence = forbidden(request, {
      account = given(job_desc.account) or given(job_desc.default_account),
      qos = given(job_desc.qos) or given(job_desc.default_qos),
      partition = partition,
      user = given(job_desc.user_name) or job_desc.user_id,
    }, settings)
  end
  if sentence then return say(sentence) end
  if gres then
    job_desc.tres_per_node = prefixed(gres)
    -- "" clears; nil would refuse the job.
    if request.per_job then job_desc.tres_per_job = "" end
    if request.per_task then job_desc.tres_per_task = "" end
  end
  return slurm.SUCCESS
end

function fikit.job_submit(job_desc, part_list)
  return guarded({ job_desc }, function() return submit(job_desc, part_list) end)
end

local function modify(job_desc, job_rec)
  local request = request_of({
    spank_job_env = job_rec.spank_job_env,
    tres_per_node = given(job_desc.tres_per_node) or job_rec.tres_per_node,
    tres_per_job = given(job_desc.tres_per_job) or job_rec.tres_per_job,
    tres_per_task = given(job_desc.tres_per_task) or job_rec.tres_per_task,
    tres_per_socket = given(job_desc.tres_per_socket) or job_rec.tres_per_socket,
  })
  if not rule.gpus_of(request).shards then return slurm.SUCCESS end
  local sentence = forbidden(request, {
    account = given(job_desc.account) or given(job_rec.account),
    qos = given(job_desc.qos) or given(job_rec.qos),
    partition = given(job_desc.partition) or given(job_rec.partition),
    user = job_rec.user_id,
  }, files.settings(files.config_path()))
  if sentence then return say(sentence) end
  return slurm.SUCCESS
end

-- A job that moves to another account, QOS or partition, or comes to have shards, must be allowed there what it has. What an
-- operator changes for somebody is the operator's business.
function fikit.job_modify(job_desc, job_rec, part_list, modify_uid)
  if modify_uid ~= job_rec.user_id then return slurm.SUCCESS end
  local changes = given(job_desc.account) or given(job_desc.qos) or given(job_desc.partition)
  for _, key in ipairs(GRES) do changes = changes or given(job_desc[key]) end
  if not changes then return slurm.SUCCESS end
  return guarded({ job_desc, job_rec }, function() return modify(job_desc, job_rec) end)
end

return fikit
