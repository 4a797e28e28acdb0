"""One admitted connection: who it is, and what it became."""

from __future__ import annotations

import asyncio
import time
from array import array

from fikitd.api.job_time import Edges
from fikitd.base.peer import Peer
from fikitd.base.protocol import Device
from fikitd.clients.fd_store import KeptClient, Notes
from fikitd.jobs.job import Borrowed, Job
from fikitd.jobs.totals import Stats
from fikitd.profiles.profile_key import Program
from fikitd.store.records import JobRecord


class Client:
    """One admitted connection."""

    def __init__(
        self, number: int, peer: Peer, record: JobRecord, device: Device, job: Job, *, version: int, place: str
    ) -> None:
        self.number = number
        self.peer = peer
        self.record = record
        self.device = device
        self.version = version  # of the protocol
        self.place = place  # under which its GPU is shared (devices.py)
        self.job = job
        self.started_ns = time.time_ns()
        self.program = Program(record.profile, [])
        self.stood_in = ""  # the run of its program, with other arguments, that most of its profile was borrowed from
        self.choices = 0  # runs with other arguments that there were to borrow from, by their arguments
        self.seen = array("Q")  # identities of the first kernels that it launched
        self.matching: asyncio.Future[None] | None = None
        self.peak_memory_bytes = 0
        self.in_mps: bool | None = None  # by the driver's word; None: the driver did not say
        self.mode = ""  # in which it shares its GPU
        self.described_bytes = 0  # by descriptions of its kernels
        self.kept: KeptClient | None = None  # from the fikitd before this one
        self.notes: Notes | None = None  # for the next one
        self.known_edges: Edges | None = None  # by its profile
        self.edges = Edges(0, 0, 0)  # its start and its end, when it has gone
        self.counted = False  # in the job's counters, which take care that no next fikitd counts it again

    def borrowed(self, stats: Stats) -> Borrowed | None:
        """How much of it runs with other arguments have told; None: nothing."""
        if not self.stood_in or not stats["distinct_borrowed"]:
            return None
        known = stats["distinct_profiled"] + stats["distinct_borrowed"]
        return Borrowed(self.stood_in, stats["distinct"], known, stats["distinct_borrowed"])

    def cease_matching(self) -> None:
        """It goes."""
        if self.matching is not None:
            self.matching.cancel()

    def came(self) -> None:
        """Gone on with, or never to be."""
        if self.kept and self.kept.expected:
            self.kept.expected = False
            self.job.expects(-1)
