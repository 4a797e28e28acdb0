-- What a job was submitted with, for a site's own rules. What sbatch and salloc ask for is in its fields until
-- fikit.job_submit. srun has asked for shards already, for its step will ask the same once more (fikit_client.lua), and tells
-- what it was asked for: FIKIT_ASKED=4;per_job=gpu:1 in spank_job_env, of 4 shards. That is a client's word: it can have a job
-- looked at as one that asked for its GPU, which every user can ask for, and gives it no other shards than it asks for.
--
--   asked.converted(job) -> { shards = their number, per_node =, per_job =, per_task =, per_socket = texts }, where srun has
--                           turned one GPU into shards; else nil
--   asked.restore(job)   -> puts that back into the job's fields

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local rule = dofile(here .. "/fikit_request.lua")
local values = dofile(here .. "/fikit_values.lua")

local given, number = values.given, values.number

local asked = {}

local FIELDS = { "per_node", "per_job", "per_task", "per_socket" }

-- The one entry FIKIT_ASKED; nil where there is none, or several.
local function entry_of(job)
  local found
  for _, entry in pairs(job.spank_job_env or {}) do
    local text = entry:match("^FIKIT_ASKED=([%w_.:/=,;-]+)$")
    if text and found then return nil end
    found = found or text
  end
  return found
end

function asked.request(job)
  local request = { tasks = number(job.num_tasks) }
  for _, name in ipairs(FIELDS) do request[name] = given(job["tres_" .. name]) end
  return request
end

function asked.converted(job)
  local shards, rest = (entry_of(job) or ""):match("^(%d+);(.*)$")
  if not shards or #shards > 5 then return nil end
  local found = { tasks = number(job.num_tasks) }
  for part in rest:gmatch("[^;]+") do
    local name, text = part:match("^(per_%l+)=(.+)$")
    if not name or found[name] then return nil end
    found[name] = text
  end
  local gpus = rule.gpus_of(found)
  if gpus.gpus ~= 1 or gpus.shards then return nil end
  found.tasks, found.shards = nil, tonumber(shards)
  return found
end

-- As this Slurm writes it: "gres:gpu:1" before 23.11, "gres/gpu:1" since.
local function prefixed(text, separator)
  local parts = rule.split(text)
  for i, part in ipairs(parts) do
    if part:match("^gpu") then part = "gres:" .. part end -- an option that means GPUs only
    parts[i] = part:gsub("^gres[:/]", "gres" .. separator)
  end
  return table.concat(parts, ",")
end

function asked.restore(job)
  local before = asked.converted(job)
  local now = rule.gpus_of(asked.request(job))
  if not before or now.gpus > 0 or now.gib ~= before.shards then return end
  local separator = (given(job.tres_per_node) or ""):match("^gres([:/])") or ":"
  for _, name in ipairs(FIELDS) do
    local key = "tres_" .. name
    if before[name] then
      job[key] = prefixed(before[name], separator)
    elseif given(job[key]) then
      job[key] = "" -- nil would refuse the job
    end
  end
end

return asked
