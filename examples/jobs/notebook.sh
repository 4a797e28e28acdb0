#!/bin/bash
# A notebook uses its GPU for seconds in an hour. Here it answers at once, and other jobs have the GPU while its user thinks.
#SBATCH --job-name=notebook
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=high
#SBATCH --fikit-mem=8G
#SBATCH --cpus-per-task=2
#SBATCH --time=08:00:00
port=$((20000 + SLURM_JOB_ID % 20000))
echo "on your computer: ssh -L $port:$(hostname):$port ${SLURM_SUBMIT_HOST:-LOGIN-NODE}; then open the address that follows"
jupyter lab --no-browser --ip="$(hostname)" --port="$port"
