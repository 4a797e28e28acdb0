#!/bin/bash
# A sweep: every task of the array shares a GPU with whoever is there, and with the others. One profile serves them all, though their
# arguments differ.
#SBATCH --job-name=sweep
#SBATCH --array=0-3
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=low
#SBATCH --fikit-mem=1G
#SBATCH --time=00:30:00
batches=(8 16 32 64)
export DEV=CUDA:PTX # tinygrad's choice of a device
python "${EXAMPLES:-examples}"/train.py --steps "${STEPS:-200}" --batch "${batches[SLURM_ARRAY_TASK_ID]}"
