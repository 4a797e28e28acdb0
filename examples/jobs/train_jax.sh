#!/bin/bash
# JAX takes three quarters of the GPU's memory when it starts, unless it is told to take what it needs.
#SBATCH --job-name=jax
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=low
#SBATCH --fikit-mem=20G
#SBATCH --cpus-per-task=4
#SBATCH --time=02:00:00
export XLA_PYTHON_CLIENT_PREALLOCATE=false
python "${EXAMPLES:-examples}"/jobs/train_jax.py
