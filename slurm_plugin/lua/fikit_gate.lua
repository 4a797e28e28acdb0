-- A job that shares a GPU waits a moment for the placement agent, while there is one that decides where jobs run.
--
--   gate.close(job_desc, settings, now) -> whether it waits: its begin time is a few seconds from now
-- The agent ([placement] mode = "pair") writes the time into a file once a second; when it is older than FRESH_S, or not there, or
-- not a time, no job waits. One that waits begins by itself, whatever becomes of the agent.

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local values = dofile(here .. "/fikit_values.lua")

local gate = {}

local WAIT_S = 4
local FRESH_S = 5

local function heartbeat(path)
  local file = io.open(path, "r")
  if not file then return nil end
  local text = file:read(32)
  file:close()
  return tonumber((text or ""):match("^(%d+)\n$"))
end

-- Has its user said when or where it runs?
local function has_wishes(job)
  if values.number(job.begin_time) and job.begin_time > 0 then return true end
  for _, key in ipairs({ "dependency", "reservation", "req_nodes", "exc_nodes", "array_inx" }) do
    if values.given(job[key]) then return true end
  end
  return job.priority == 0 or (values.number(job.het_job_offset) or 0) > 0
end

function gate.close(job, settings, now)
  local beat = heartbeat(settings.placement_run_dir .. "/heartbeat")
  if not beat or now - beat >= FRESH_S or beat - now >= FRESH_S or has_wishes(job) then return false end
  job.begin_time = now + WAIT_S
  return true
end

return gate
