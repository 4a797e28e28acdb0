"""What the command line knows of the Slurm on this machine: release line, configuration, numbers of jobs, Lua scripts."""
