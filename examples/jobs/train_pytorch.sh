#!/bin/bash
# PyTorch training that takes what the service leaves of the GPU. The allocator asks for memory in pieces that can grow, so the job
# stays within what --fikit-mem says for longer.
#SBATCH --job-name=train
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=low
#SBATCH --fikit-mem=40G
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00
#SBATCH --requeue
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
python "${EXAMPLES:-examples}"/gpu/transformer.py
