#!/bin/bash
# A PyTorch service that answers in bursts: its kernels come first on the GPU.
#SBATCH --job-name=serve
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=high
#SBATCH --fikit-mem=12G
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
python "${EXAMPLES:-examples}"/gpu/decode.py
