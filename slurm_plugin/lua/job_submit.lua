-- fikit's part of slurmctld's job_submit.lua; `fikit lua` writes the line that loads it, as the first of the site's script
-- (fikit_around.lua). The site's functions are asked first, about what the user asked for, and fikit's, which turns what is
-- left of the request into shards, last.
local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "/etc/slurm"
local around = dofile(here .. "/fikit_around.lua")
local site, result = around.site(here, { "slurm_job_submit", "slurm_job_modify" })
if not site then return nil end
local fikit = dofile(here .. "/fikit_submit.lua")

function slurm_job_submit(job_desc, part_list, submit_uid)
  if site.slurm_job_submit then fikit.before(job_desc, part_list) end
  local said = around.ask("slurm_job_submit", site.slurm_job_submit, job_desc, part_list, submit_uid)
  if said ~= slurm.SUCCESS then return said end
  return fikit.job_submit(job_desc, part_list)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  local said = around.ask("slurm_job_modify", site.slurm_job_modify, job_desc, job_rec, part_list, modify_uid)
  if said ~= slurm.SUCCESS then return said end
  return fikit.job_modify(job_desc, job_rec, part_list, modify_uid)
end

return result or slurm.SUCCESS
