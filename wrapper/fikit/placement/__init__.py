"""The placement agent: Slurm's queue steered by the rules of `fikitd.placement`, from outside and without a hold. README.md has the map."""
