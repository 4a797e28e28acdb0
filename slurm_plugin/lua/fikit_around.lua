-- fikit around a site's own script. Slurm reads one job_submit.lua and one cli_filter.lua, beside slurm.conf. There the line
--   do local r = dofile("/usr/lib/fikit/native/slurm/job_submit.lua") if r then return r end end
-- comes first, and the site's code follows, whatever that is and however it ends. The line reads the script once more, this
-- time past itself, takes the functions that the site has defined and puts fikit's around them; then the script is over.
-- A line without the "if", at the end of a script that does not end in `return`, does the same. Written twice it acts once.

local around = {}

local READING = "FIKIT_READS_THE_SITES_SCRIPT"

-- The script whose line this is: the main chunk that called, and none of fikit's own. nil where Slurm has read fikit's itself.
local function script_of_site(here)
  for level = 2, 100 do
    local info = debug.getinfo(level, "S")
    if not info then return nil end
    local path = info.source:match("^@(.*)$")
    if info.what == "main" and path and path:match("^(.*)/[^/]*$") ~= here then return path end
  end
  return nil
end

-- The site's functions of these names, and what its script returned. nil where the script is being read for that: the line
-- lets it go on then. here: the directory of fikit's own files.
function around.site(here, names)
  if rawget(_G, READING) then return nil end
  local path, result = script_of_site(here), nil
  if path then
    rawset(_G, READING, true)
    local done, value = pcall(dofile, path)
    rawset(_G, READING, nil)
    if not done then error(value, 0) end
    result = value
  end
  local found = {}
  for _, name in ipairs(names) do
    local defined = rawget(_G, name)
    if type(defined) == "function" then found[name] = defined end
  end
  return found, result
end

-- What a site's function says. Where it ends in an error, or says nothing that Slurm understands, Slurm lets the job through
-- with one line in its log: so it goes on to fikit's rules.
function around.ask(name, site, ...)
  if not site then return slurm.SUCCESS end
  local done, result = pcall(site, ...)
  if done and tonumber(result) then return result end
  if not done then
    slurm.log_error("%s: %s", name, tostring(result))
  else
    slurm.log_info("%s: non-numeric return code", name)
  end
  return slurm.SUCCESS
end

return around
