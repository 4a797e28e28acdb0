-- fikit's part of the clients' cli_filter.lua, in the same way as job_submit.lua: the site's functions first, fikit's last.
local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "/etc/slurm"
local around = dofile(here .. "/fikit_around.lua")
local names = { "slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit" }
local site, result = around.site(here, names)
if not site then return nil end
local fikit = dofile(here .. "/fikit_submit.lua")

slurm_cli_setup_defaults = site.slurm_cli_setup_defaults or function() return slurm.SUCCESS end
slurm_cli_post_submit = site.slurm_cli_post_submit or function() return slurm.SUCCESS end

function slurm_cli_pre_submit(options, pack_offset)
  local said = around.ask("slurm_cli_pre_submit", site.slurm_cli_pre_submit, options, pack_offset)
  if said ~= slurm.SUCCESS then return said end
  return fikit.cli_filter(options)
end

return result or slurm.SUCCESS
