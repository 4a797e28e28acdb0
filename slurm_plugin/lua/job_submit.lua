-- For sites without a job_submit.lua of their own: copy it, and fikit_*.lua, beside slurm.conf. Others load fikit_submit.lua
-- in theirs and call fikit.job_submit(job_desc, part_list) and fikit.job_modify(...) last.
local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "/etc/slurm"
local fikit = dofile(here .. "/fikit_submit.lua")

function slurm_job_submit(job_desc, part_list, submit_uid)
  return fikit.job_submit(job_desc, part_list)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return fikit.job_modify(job_desc, job_rec, part_list, modify_uid)
end
