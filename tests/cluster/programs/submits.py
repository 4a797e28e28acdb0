"""submits.py FOLDER SPIN: what a user of submitit writes, a function and a map of one, on a shared GPU."""

import os
import subprocess
import sys
from pathlib import Path

import submitit


def work(spin: str) -> str:
    said = subprocess.run([spin, "10", "20000"], check=True, capture_output=True, text=True).stdout.strip()
    return ("managed " if "libfikit_shim.so" in os.environ.get("LD_PRELOAD", "") else "alone ") + said


executor = submitit.AutoExecutor(folder=Path(sys.argv[1]), cluster="slurm")
executor.update_parameters(
    timeout_min=5, slurm_gres="gpu:1", slurm_additional_parameters={"fikit-priority": "high"}, slurm_array_parallelism=2
)
print("function:", executor.submit(work, sys.argv[2]).result())
for index, job in enumerate(executor.map_array(work, [sys.argv[2]] * 2)):
    print(f"map {index}:", job.result())
