"""What Slurm says of nodes and jobs, and what each node's fikitd wrote. A look may take seconds."""

from __future__ import annotations

import time
from dataclasses import replace

from fikitd.api import statuses
from fikitd.config import fikit_toml
from fikitd.store.storage import reason

from fikit.advice import slurm
from fikit.cluster import view
from fikit.cluster.view import Cluster
from fikit.errors import UserError
from fikit.slurm import config as slurm_config


def look() -> Cluster:
    """Every node with GPUs. UserError: Slurm does not answer, and no fikitd has written anything."""
    now_s = time.time()
    told, why = _told(now_s)
    try:
        lines = [
            slurm_config.pairs_of(line) for line in slurm.answer("scontrol", "--oneliner", "show", "node").splitlines()
        ]
        jobs = slurm.queue()
    except UserError as error:
        if not told.by_node:
            raise
        lines, jobs, why = [], [], [*why, str(error)]
    return replace(view.of(lines, jobs, told, now_s), notes=tuple(why))


def _told(now_s: float) -> tuple[statuses.Statuses, list[str]]:
    try:
        directory = fikit_toml.load().daemon.status_dir
    except fikit_toml.ConfigError as error:
        raise UserError(str(error)) from None
    if not directory:
        return statuses.Statuses(), ["fikit.toml names no status_dir, so only Slurm tells of the nodes"]
    try:
        return statuses.read(directory, now_s), []
    except (OSError, ValueError) as error:
        return statuses.Statuses(), [f"what nodes wrote into {directory} is not read: {reason(error)}"]
