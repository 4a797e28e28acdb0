-- The --fikit-* options that travel with a job, as its node's prolog will find them: what slurmctld approves is what the
-- record then says. Nothing else that a client sends reaches the record: no step's option, no variable of the job's.
--
--   options.carried(job) -> name -> text; and a sentence where that cannot be said
--   options.wished(job)  -> whether they come from FIKIT_* variables alone, which a user sets once for all jobs
--   options.variables(job) -> of which of them that is so, name -> true; for the words of a sentence
--   options.plain(job)   -> what a batch job's environment says where nothing travels with it, name -> text

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local values = dofile(here .. "/fikit_values.lua")

local options = {}

local NAMES = { "priority", "measure", "mem", "mem_host", "profile", "max_slowdown", "max_delay" }
local CARRIED = "_SLURM_SPANK_OPTION_fikit_fikit_" -- spank.c's name for an option of ours
local WISHED = "FIKIT_ONLY_WISHED"
local VARIABLES = "FIKIT_VARIABLES" -- where others were typed: the names of those that were not

-- name -> text of spank_job_env, by the names under which a prolog sees them: slurmd writes SPANK_ before each that has none.
-- And for the names of our options name -> what speaks against believing it: it is there twice, and the prolog has one of the
-- two; or in a form that no command of Slurm's sends.
local function control_environment(job)
  local found, doubts = {}, {}
  for _, entry in pairs(job.spank_job_env or {}) do -- from 0: ipairs would miss the first
    local name, text = entry:match("^([^=]+)=(.*)$")
    local ours = name and name:match(CARRIED .. ".*$")
    if ours and ours ~= name then
      doubts[ours] = "form"
    elseif name then
      if found[name] and found[name] ~= text then doubts[name] = doubts[name] or "twice" end
      found[name] = text
    end
  end
  return found, doubts
end

-- Only batch jobs have an environment here.
local function variable(job, name)
  return job.script and job.environment and job.environment[name]
end

function options.carried(job)
  local sent, doubts = control_environment(job)
  local found, sentence = {}, nil
  for _, name in ipairs(NAMES) do
    local key = CARRIED .. name
    local flag = name == "measure" -- whose value is whatever Slurm puts there: the node goes by its being there
    local text = flag and sent[key] and "1" or not flag and values.given(sent[key]) or nil
    local other = not flag and values.given(variable(job, key))
    found[name] = text
    if doubts[key] == "form" or not flag and (doubts[key] or text and other and other ~= text) then
      sentence = ("--fikit-%s was sent twice, or in a form that no command of Slurm's uses: use sbatch, srun or salloc"):format(
        name:gsub("_", "-"))
    end
  end
  return found, sentence
end

function options.plain(job)
  local found = {}
  for _, name in ipairs(NAMES) do
    found[name] = values.given(variable(job, CARRIED .. name)) or values.given(variable(job, "FIKIT_" .. name:upper()))
  end
  if not values.truth(found.measure) then found.measure = nil end
  return found
end

function options.wished(job)
  local sent = control_environment(job)
  if sent[WISHED] == "1" then return true end
  for name in pairs(sent) do
    if name:find(CARRIED, 1, true) == 1 then return false end
  end
  return true
end

function options.variables(job)
  local found, sent = {}, control_environment(job)
  local carries = false
  for _, name in ipairs(NAMES) do carries = carries or sent[CARRIED .. name] ~= nil end
  for _, name in ipairs(NAMES) do
    if carries then
      found[name] = sent[WISHED] == "1" or (" " .. (sent[VARIABLES] or "") .. " "):find(" " .. name .. " ", 1, true) ~= nil or nil
    else
      found[name] = not values.given(variable(job, CARRIED .. name)) and values.given(variable(job, "FIKIT_" .. name:upper())) ~= nil or nil
    end
  end
  return found
end

return options
