"""The profile of a managed client's program: found when it comes, chosen again by its kernels, stored when it goes.

Files are read and written by workers with the user's rights; here is who asks for what, and for how long.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from fikitd.api.job_time import Edges
from fikitd.base.validation import integer, printable, string
from fikitd.clients.managed_client import Client
from fikitd.gpus.dispatchers import Dispatcher
from fikitd.jobs.job import iso
from fikitd.jobs.totals import Stats
from fikitd.profiles.profile_format import edges_of, plausible
from fikitd.profiles.profile_key import Program, program_of_process
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store.storage import Storage, become, reason
from fikitd.workers.pool import Call, Rights
from fikitd.workers.user_work import MOST_CHARACTERS, MOST_OF_A_COMMAND, MOST_SENTENCES

_log = logging.getLogger("fikitd")

PROFILE_TIMEOUT_S: Final = 15.0
SAVING_TIMEOUT_S: Final = 15.0  # a busy file system takes seconds to have a file safe
PROFILE_BYTES: Final = 4 * 2**20  # packed: 8,000 kernels and contexts of twenty times each


class ClientProfiles:
    """Of all managed clients."""

    def __init__(self, store: ProfileStore, storage: Storage, work: Call, proc: Path) -> None:
        """`work`: runs a job of fikitd.workers.user_work in a worker. `proc`: /proc, or what stands for it."""
        self._store, self._storage, self._work, self._proc = store, storage, work, proc
        self._loading: dict[tuple[Rights, str, str, str, bytes], asyncio.Task[tuple[Found, bytes | None]]] = {}

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self._store.directory

    async def find(self, client: Client) -> bytes | None:
        """The packed profile of the client's program, None when there is none; sets what it runs. Never raises."""
        record = client.record

        def find() -> tuple[Program, bool]:
            become(record.uid, record.gid)
            program = program_of_process(self._proc, client.peer.pid)
            if record.profile:
                program = replace(program, key=record.profile, earlier_key="")
            return program, not record.measure and self._store.may_know(record.uid, program)

        try:
            client.program, worth_it = await self._storage.run(record.uid, find, PROFILE_TIMEOUT_S)
            packed = await self._load(client) if worth_it else None
        except (OSError, ValueError) as error:
            client.job.warn(f"profiles in {self._store.directory} could not be read: {reason(error)}")
            return None
        client.job.uses_profile(client.program.key)
        return packed

    async def _load(self, client: Client, seen: bytes = b"") -> bytes | None:
        """What is known of its program, packed. All who ask for the same meanwhile share it."""
        rights = Rights(client.record.uid, client.record.gid)
        wanted = rights, client.program.key, client.program.variant, client.device.name, seen
        loading = self._loading.get(wanted)
        if loading is None:
            loading = self._loading[wanted] = asyncio.ensure_future(self._read(client, rights, seen))
            loading.add_done_callback(lambda _: self._loading.pop(wanted))
        found, packed = await asyncio.shield(loading)
        for sentence in found.skipped:
            client.job.warn(sentence)
        client.stood_in, client.choices = found.stood_in, found.choices
        client.known_edges = found.edges if any(found.edges) else None
        client.job.time.knows(client.number, client.known_edges)
        return packed

    async def _read(self, client: Client, rights: Rights, seen: bytes) -> tuple[Found, bytes | None]:
        program = client.program
        arguments = {
            "directory": str(self._store.directory), "uid": rights.uid, "device": client.device.name,
            "program": asdict(program), "named": bool(client.record.profile), "limit": PROFILE_BYTES,
        }  # fmt: skip
        said, packed = await self._work(
            rights,
            "load_profile",
            arguments,
            chunks=[seen] if seen else (),
            timeout_s=PROFILE_TIMEOUT_S,
            answer_bytes=PROFILE_BYTES,
        )
        return Found.of(said), packed if said.get("found") is True else None

    async def match_again(self, client: Client, dispatcher: Dispatcher) -> None:
        """By now it has launched kernels, which tell better than its arguments which runs it is like."""

        async def load() -> bytes | None:
            try:
                return await self._load(client, client.seen.tobytes())
            except (OSError, ValueError) as error:
                _log.info("job %s: its profile was not looked for again: %s", client.record.job, reason(error))
                return None

        await self.use(client, dispatcher, asyncio.ensure_future(load()))

    async def use(self, client: Client, dispatcher: Dispatcher, profile: asyncio.Task[bytes | None]) -> None:
        """Give what `profile` finds to the client's dispatcher. Never raises."""
        packed = await profile
        if packed is None:
            return
        try:
            await self._storage.run(client.record.uid, partial(dispatcher.use_profile, client.number, packed))
        except (OSError, ValueError) as error:
            client.job.warn(f"its profile cannot be used: {reason(error)}")
        else:
            client.job.profile_found = True

    async def save(self, client: Client, packed: bytes, stats: Stats) -> list[str]:
        """Store what its kernels taught; what is to be said about it. Raises OSError and ValueError."""
        record = client.record
        created = iso(client.started_ns)
        # Pids and numbers repeat on every node, and the nodes share the directory.
        when, which = created.replace(":", "").replace("-", ""), secrets.token_hex(4)
        about = {
            "key": client.program.key,
            "command": client.program.command,
            "role": client.program.role,
            "created": created,
            "device": {
                "name": client.device.name,
                "memory_bytes": client.device.memory_bytes,
                "emulated": client.device.emulated,
            },
            "span_ns": stats["span_ns"],
            "launches": stats["kernels"],
            "peak_bytes": client.peak_memory_bytes,
            "edges": plausible(client.edges)._asdict(),
        }
        arguments = {
            "directory": str(self._store.directory), "uid": record.uid, "about": about,
            "run": f"{when}-{record.job[:20]}-{client.peer.pid}-{which}", "sampled": not record.measure,
            "named": bool(record.profile),
        }  # fmt: skip
        rights = Rights(record.uid, record.gid)
        await self._storage.run(record.uid, partial(self._store.prepare, *rights), SAVING_TIMEOUT_S)
        said, _ = await self._work(rights, "save_profile", arguments, chunks=[packed], timeout_s=SAVING_TIMEOUT_S)
        return _sentences(said)


class Found(NamedTuple):
    """What a worker says of a program's profile: files that were skipped, and whose times stand in for its own."""

    skipped: list[str]
    stood_in: str
    choices: int
    edges: Edges  # all 0: not known

    @classmethod
    def of(cls, said: Any) -> Found:
        """Of a worker's result. ValueError for one that is none."""
        skipped = _sentences(said)
        stood_in = printable(string(said.get("stood_in"), "stood_in", MOST_OF_A_COMMAND))
        return cls(skipped, stood_in, integer(said.get("choices"), "choices", 0, 2**16), edges_of(said.get("edges")))


def _sentences(said: Any) -> list[str]:
    """Of a worker's result. ValueError for one that is none."""
    if not isinstance(said, dict) or not isinstance(said.get("sentences"), list):
        raise ValueError("its worker's answer is none")
    return [printable(string(each, "a sentence", MOST_CHARACTERS)) for each in said["sentences"][:MOST_SENTENCES]]
