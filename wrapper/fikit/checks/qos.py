"""QOS of Slurm's accounting that would hold every sharing job for ever."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from fikit.checks.check import Check, ok, warn
from fikit.slurm.versions import SYSTEM_PATH

SACCTMGR_S = 10
_WHOLE_GPUS = re.compile(r"(?:^|,)gres/gpu(?::[^=,]*)?=[1-9]")


def area(settings: Mapping[str, str]) -> Iterator[Check]:
    """settings: of slurm.conf. Nothing where there is no slurmdbd, or it does not answer."""
    if not settings.get("accountingstoragetype", "").lower().endswith("/slurmdbd"):
        return
    if (text := _listed()) is not None:
        yield check(text)


def check(listed: str) -> Check:
    """listed: what sacctmgr says, a line NAME|MINTRES for each QOS. A sharing job has shards and no gres/gpu of its own."""
    lines = (line.partition("|") for line in listed.splitlines())
    names = [name for name, _, least in lines if _WHOLE_GPUS.search(least)]
    if not names:
        return ok("QOS", "none wants a whole GPU of each job")
    return warn("QOS", f"MinTRESPerJob of {', '.join(names)} wants a whole GPU: a sharing job, which has shards instead, waits there for ever",
                f"sacctmgr modify qos {names[0]} set MinTRESPerJob=gres/gpu=-1, or refuse jobs without GPUs in job_submit.lua by fikit.asked()")  # fmt: skip


def _listed() -> str | None:
    program = shutil.which("sacctmgr", path=SYSTEM_PATH)
    if program is None:
        return None
    try:
        done = subprocess.run([program, "--noheader", "--parsable2", "--immediate", "show", "qos", "format=Name,MinTRESPerJob"],
                              capture_output=True, text=True, errors="replace", check=False, timeout=SACCTMGR_S)  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
