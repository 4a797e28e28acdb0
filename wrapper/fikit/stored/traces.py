"""The trace of a job, and those of the jobs beside it, as far as the caller may read them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.traces import TraceError, TraceStore

from fikit.errors import UserError
from fikit.site_paths import Place, places

MOST_PARTNERS: Final = 16

Record = Mapping[str, Any]


def of(job: str, uid: int) -> Record | None:
    """From fikitd while it runs, else the stored one; None where there is none that can be read."""
    for place in places():
        with suppress(DaemonUnreachable, ControlError, TraceError, UserError):
            if (found := _at(place, job, uid)) is not None:
                return found
    return None


def partners(own: Record) -> dict[str, Record]:
    """Traces of the jobs that the job waited for or was delayed by, by job: of those whose trace the caller may read, which is the same user's."""
    jobs = sorted({str(each["job"]) for each in own["others"].values() if each["job"] not in (None, own["job"])})
    found = {job: of(job, own["uid"]) for job in jobs[:MOST_PARTNERS]}
    return {job: each for job, each in found.items() if each is not None and each["node"] == own["node"]}


def _at(place: Place, job: str, uid: int) -> Record | None:
    with suppress(DaemonUnreachable, ControlError):
        running: Record = Control(place.run_dir).trace(job)
        if running["uid"] == uid:
            return running
    return TraceStore(place.report_dir).load(job, uid)
