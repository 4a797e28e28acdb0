"""Work on what users made is done with their rights, in processes with limits: what one user makes costs the others nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_process import eventually, let_others_in
from fikitd.profiles import profile_format
from fikitd.store.storage import StorageTimeout
from fikitd.worker import Limits
from fikitd.workers import pool
from fikitd.workers.pool import PLACES_PER_USER, Rights, Workers, WorkFailed, _Worker
from heavy_user import crafted_profile

ME = Rights(os.getuid(), os.getgid())
root = pytest.mark.skipif(ME.uid != 0, reason="only root can take a user's rights")
NOBODY, SOMEBODY = Rights(65534, 65534), Rights(65533, 65533)
PACKED_BYTES = 4 * 2**20


def kernel(name: str, **facts: Any) -> dict[str, Any]:
    times = {"count": 1, "mean_ns": 1000.0, "m2": 0.0, "histogram": {"80": 1}}
    return {
        "name": name, "module": "ab", "grid": [1, 1, 1], "block": [1, 1, 1], "shared_bytes": 0, "kind": 0, "context": [],
        "duration": times, "gap": profile_format.NOTHING, "boundary": profile_format.NOTHING, **facts,
    }  # fmt: skip


class Site:
    """A directory of profiles, and workers for those whose they are."""

    def __init__(self, directory: Path, limits: Limits | None = None) -> None:
        self.directory, self.workers = directory, Workers(limits or Limits())

    def write(self, rights: Rights, text: str | bytes, key: str = "mine", run: str = "20260101T000000Z-1") -> None:
        file = self.directory / str(rights.uid) / key / f"{run}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        for path in (file, file.parent, file.parent.parent):
            os.chown(path, *rights)

    async def load(self, rights: Rights = ME, key: str = "mine", timeout_s: float = 20.0) -> tuple[Any, bytes]:
        arguments = {
            "directory": str(self.directory), "uid": rights.uid, "device": "GPU", "limit": PACKED_BYTES,
            "program": {"key": key, "command": []}, "named": True,
        }  # fmt: skip
        return await self.workers.call(
            rights, "load_profile", arguments, timeout_s=timeout_s, answer_bytes=PACKED_BYTES
        )

    def at_work(self) -> list[_Worker]:
        return [worker for worker in self.workers._workers if worker.leaves is None]

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            try:
                await test()
            finally:
                self.workers.close()

        asyncio.run(whole())


def profile(*kernels: dict[str, Any]) -> str:
    return json.dumps({
        "format": "fikit-profile", "version": 1, "key": "mine", "device": {"name": "GPU"}, "kernels": list(kernels),
    })  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Site:
    let_others_in(tmp_path)
    return Site(tmp_path)


async def turns(condition: Callable[[], Any]) -> None:
    """Until the event loop has made it true."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


@root
def test_a_worker_has_its_users_rights_and_limits_and_no_more(site: Site) -> None:
    site.write(NOBODY, profile(kernel("k")))

    async def test() -> None:
        found, packed = await site.load(NOBODY)
        edges = {"lead_ns": 0, "start_ns": 0, "end_ns": 0}
        assert (found, bool(packed)) == (
            {"found": True, "sentences": [], "stood_in": "", "choices": 0, "edges": edges},
            True,
        )
        (worker,) = site.workers._workers
        process = Path(f"/proc/{worker.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
        assert status["Groups"].split() == []
        assert [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh")] == [0, 0, 0]
        assert status["NoNewPrivs"].strip() == "1"
        limits = (process / "limits").read_text()
        for line in ("address space         536870912", "open files            64 ", "cpu time              11 "):
            assert f"Max {line}" in limits
        open_files = [str(link.readlink()) for link in (process / "fd").iterdir()]
        assert sorted(open_files)[:-1] == ["/dev/null"] * (len(open_files) - 1)
        assert open_files[-1].startswith("socket:")

    site.run(test)


@root
def test_a_worker_reads_nothing_that_its_user_may_not(site: Site) -> None:
    site.write(SOMEBODY, profile(kernel("k")))
    (site.directory / str(SOMEBODY.uid)).chmod(0o700)
    (site.directory / str(NOBODY.uid)).symlink_to(site.directory / str(SOMEBODY.uid))

    async def test() -> None:
        with pytest.raises(WorkFailed, match="Permission denied"):
            await site.load(NOBODY)

    site.run(test)


def test_what_needs_too_much_memory_is_said_and_the_next_request_is_served(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(memory_bytes=80 * 2**20))
    large = crafted_profile(7 * 2**20)
    for number in range(4):
        site.write(ME, large, "heavy", f"20260101T00000{number}Z-1")
    site.write(ME, profile(kernel("k")))

    async def test() -> None:
        with pytest.raises(OSError, match="it takes more than 80 MiB of memory"):
            await site.load(key="heavy")
        assert (await site.load())[0]["found"]

    site.run(test)


def test_what_takes_too_long_ends_its_worker_and_the_next_request_is_served(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(cpu_s=0))
    large = profile(*(kernel(f"k{i}") for i in range(20_000)))
    for number in range(16):
        site.write(ME, large, "large", f"20260101T0000{number:02}Z-1")
    site.write(ME, profile(kernel("k")))

    async def test() -> None:
        with pytest.raises(WorkFailed, match="its worker was ended: it took more memory or time"):
            await site.load(key="large")
        assert (await site.load())[0]["found"]

    site.run(test)


def test_a_worker_that_is_stopped_or_killed_costs_its_call_only(site: Site) -> None:
    site.write(ME, profile(kernel("k")))

    async def test() -> None:
        await site.load()
        (worker,) = site.workers._workers
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(StorageTimeout, match=r"did not answer within 0\.2 s"):
            await site.load(timeout_s=0.2)
        await turns(lambda: not site.workers._workers)
        assert (await site.load())[0]["found"]
        (worker,) = site.workers._workers
        os.kill(worker.pid, signal.SIGSTOP)
        loading = asyncio.ensure_future(site.load())
        await turns(site.at_work)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkFailed, match="its worker was ended"):
            await loading
        assert (await site.load())[0]["found"]

    site.run(test)


def test_a_nursery_that_dies_takes_its_workers_along_and_is_followed_by_another(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RESTART_S", 0.0)
    site.write(ME, profile(kernel("k")))

    async def test() -> None:
        await site.load()
        (worker,) = site.workers._workers
        nursery = site.workers._nursery
        assert nursery is not None
        os.kill(nursery._process.pid, signal.SIGKILL)
        await turns(lambda: not site.workers._workers)
        await turns(lambda: not Path(f"/proc/{worker.pid}").exists())
        assert (await site.load())[0]["found"]

    site.run(test)


@root
def test_a_user_whose_workers_hang_takes_that_users_places_only(site: Site) -> None:
    for rights in (NOBODY, SOMEBODY):
        site.write(rights, profile(kernel("k")))

    async def test() -> None:
        for worker in [await site.workers._find(NOBODY.uid, NOBODY) for _ in range(PLACES_PER_USER)]:
            assert site.workers._nursery is not None
            await site.workers._nursery.start(worker)
            os.kill(worker.pid, signal.SIGSTOP)
            site.workers._rests(worker)
        hanging = [asyncio.ensure_future(site.load(NOBODY)) for _ in range(PLACES_PER_USER)]
        await turns(lambda: len(site.at_work()) == PLACES_PER_USER)
        with pytest.raises(StorageTimeout):
            await site.load(NOBODY, timeout_s=0.1)
        assert (await site.load(SOMEBODY))[0]["found"]
        hanging[0].cancel()
        assert (await site.load(NOBODY))[0]["found"], "there is a place again"
        for each in hanging[1:]:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    site.run(test)


def test_seventy_two_calls_at_once_are_all_done_whatever_they_wait(site: Site) -> None:
    """So many programs of one user's on one GPU may end at once; the limit is each call's own time."""
    site.write(ME, profile(kernel("k")))

    async def test() -> None:
        workers = [await site.workers._find(ME.uid, ME) for _ in range(PLACES_PER_USER)]
        asked = [asyncio.ensure_future(site.load(timeout_s=10)) for _ in range(72)]
        for worker in workers:
            assert site.workers._nursery is not None
            await site.workers._nursery.start(worker)
            site.workers._rests(worker)
        assert all(found["found"] for found, _ in await asyncio.gather(*asked))

    site.run(test)


def test_an_idle_worker_goes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE_S", 0.01)

    async def test() -> None:
        await site.load()
        await turns(lambda: not site.workers._workers)

    site.run(test)


def test_no_worker_outlives_fikitd(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from fikitd.workers.pool import Rights, Workers
async def main():
    workers, me = Workers(), Rights(*map(int, sys.argv[1:3]))
    arguments = {"directory": sys.argv[3], "uid": me.uid, "device": "", "limit": 1000}
    arguments |= {"program": {"key": "k", "command": []}, "named": True}
    await workers.call(me, "load_profile", arguments, timeout_s=20, answer_bytes=1000)
    print(workers._nursery._process.pid, *(worker.pid for worker in workers._workers), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    words = [sys.executable, "-c", code, *map(str, ME), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as fikitd:
        assert fikitd.stdout is not None
        pids = fikitd.stdout.readline().split()
        assert len(pids) == 2
        fikitd.kill()
    eventually(lambda: not any(_lives(pid) for pid in pids))


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_first_request_of_a_user_does_not_wait_for_a_python(site: Site) -> None:
    async def test() -> None:
        await site.load()
        begin = time.monotonic()
        for gid in range(10):  # workers of their own, where we are root
            await site.workers.call(
                Rights(ME.uid, ME.gid + gid), "load_profile",
                {"directory": str(site.directory), "uid": ME.uid, "device": "", "limit": 1,
                 "program": {"key": "k", "command": []}, "named": True},
                timeout_s=20, answer_bytes=1,
            )  # fmt: skip
        assert time.monotonic() - begin < 1.0  # 10 ms each; a Python takes 150 ms

    site.run(test)
