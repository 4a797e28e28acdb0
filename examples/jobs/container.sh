#!/bin/bash
# A program in an Apptainer image. The site binds the shim's directory and /run/fikit into containers (docs/admin.md, "Containers");
# LD_PRELOAD reaches the program as other variables do, unless the image is run with --cleanenv.
#SBATCH --job-name=image
#SBATCH --gres=gpu:1
#SBATCH --fikit-priority=low
#SBATCH --fikit-mem=16G
#SBATCH --time=04:00:00
apptainer exec --nv "${IMAGE:-pytorch.sif}" python "${EXAMPLES:-examples}"/gpu/convolution.py
