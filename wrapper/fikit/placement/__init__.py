"""The placement agent: Slurm's queue steered by the rules of `fikitd.gpus.placement`, from outside and without a hold. README.md has the map."""
