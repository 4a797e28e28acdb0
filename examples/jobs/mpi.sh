#!/bin/bash
# Four ranks on one GPU. To fikit they are one job: they share its priority, its memory and its report.
#SBATCH --job-name=ranks
#SBATCH --ntasks=4
#SBATCH --nodes=1
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=normal
#SBATCH --fikit-mem=2G
#SBATCH --time=00:30:00
export DEV=CUDA:PTX
# srun starts the ranks as it does for MPI; a program that calls MPI_Init adds --mpi=pmix (or what its MPI was built for).
srun python "${EXAMPLES:-examples}"/train.py --steps "${STEPS:-200}" --batch 16
