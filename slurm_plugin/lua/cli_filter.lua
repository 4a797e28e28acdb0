-- For sites without a cli_filter.lua of their own: copy it, and fikit_*.lua, beside slurm.conf. Others load
-- fikit_submit.lua in theirs and call fikit.cli_filter(options) in slurm_cli_pre_submit.
local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "/etc/slurm"
local fikit = dofile(here .. "/fikit_submit.lua")

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  return fikit.cli_filter(options)
end

function slurm_cli_post_submit(pack_offset, job_id, step_id)
  return slurm.SUCCESS
end
