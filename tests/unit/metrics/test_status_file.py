"""What a fikitd tells the whole cluster of its GPUs and jobs, and of today."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from fikitd.api import status_format, statuses
from fikitd.api.client import Control
from fikitd.gpus.nvml import NoNvml
from fikitd.jobs import gpu_use
from fikitd.jobs.gpu_use import GpuUse, Look
from fikitd.metrics import meter, status_file, table
from fikitd.metrics.meter import Here
from fikitd.metrics.today import Today, midnight
from fikitd.store.storage import Storage
from nvml_looks import OTHER, candidate, look, record, seen
from status_samples import NOW_S
from test_metrics import DEVICE, GPU, Node

S = 10**9


def file(node: Node, tmp_path: Path, wall: Any = lambda: NOW_S, look: Look = Look()) -> status_file.StatusFile:  # noqa: B008
    return status_file.StatusFile(
        str(tmp_path), node.meter, policy="budget", use=lambda: look, storage=Storage(), wall=wall
    )


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_shared_gpu_has_its_jobs_with_their_shares_and_promises(node: Node, tmp_path: Path) -> None:
    now_s = float(NOW_S)
    told = file(node, tmp_path, lambda: now_s, look(seen(GPU, 3)))
    node.client(1, node.job(12, slowdown=1.02, max_slowdown=0.05))
    node.client(2, node.job(18, 8, uid=4712))
    today = Today()
    told.document(today)
    node.ran(1, 6)
    node.ran(2, 3)
    node.now_s, now_s = node.now_s + 15, now_s + 15
    document = status_format.checked(told.document(today))
    [gpu] = document["gpus"]
    assert (gpu["uuid"], gpu["index"], gpu["use"], gpu["by_nvml"]) == (GPU, 3, pytest.approx(0.6), False)
    assert [(job["job"], job["priority"], job["share"]) for job in gpu["jobs"]] == [
        ("12", 1, pytest.approx(0.4)),
        ("18", 8, pytest.approx(0.2)),
    ]
    assert (gpu["jobs"][0]["slowdown"], gpu["jobs"][0]["max_slowdown"]) == (1.02, pytest.approx(0.05))
    assert gpu["harvest_s"] == document["today"]["harvest_s"] == 3.0
    assert document["today"]["gpu_s"] == 9.0


def test_a_gpu_that_a_job_has_alone_is_as_busy_as_nvml_says(node: Node, tmp_path: Path) -> None:
    told = file(node, tmp_path, look=look(seen(GPU, 0), seen(OTHER, 1, None, (7,)), alone=(record(31, "0"),)))
    alone, idle = told.document(Today())["gpus"]
    assert (alone["use"], alone["by_nvml"], alone["unmanaged"], alone["held_bytes"]) == (0.21, True, 0, 2**30)
    assert [(job["job"], job["uid"], job["priority"]) for job in alone["jobs"]] == [("31", 4712, None)]
    assert (idle["jobs"], idle["use"], idle["by_nvml"], idle["unmanaged"]) == ([], None, False, 1)


def test_what_a_client_calls_a_gpu_hides_no_other_one() -> None:
    """Shared under Slurm's number, because nobody knows for certain which GPU that is."""
    node = Node()
    client = node.job(12)
    values = {metric: {} for metric in table.METRICS}
    here = [Here(1, "1", dataclasses.replace(DEVICE, uuid=GPU), client, 0, 0)]
    shared = status_file.gpus_of(here, {}, values, look(seen(GPU, 0), alone=(record(31, "0"),)))
    assert [(gpu["uuid"], [job["job"] for job in gpu["jobs"]]) for gpu in shared] == [(GPU, ["31"]), ("1", ["12"])]


def test_a_gpu_that_two_jobs_have_alone_is_nobodys() -> None:
    assert gpu_use.holders([record(31, "0"), record(32, "0,1")], [seen(GPU, 0), seen(OTHER, 1)]) == {
        "11111111-0405-0607-0809-0A0B0C0D0E0F": record(32, "0,1")
    }


def test_what_is_counted_today_begins_at_midnight_and_goes_on_after_a_restart() -> None:
    day = midnight(NOW_S)
    zero = dict.fromkeys(status_format.COUNTS, 0.0)
    today = Today()
    assert today.now({**zero, "ended": 3, GPU: 5.0}, [], day + 60)[1]["ended"] == 3
    since_s, sums, _ = today.now({**zero, "ended": 5, GPU: 9.0}, [], day + 86_400 + 60)
    assert (since_s, sums["ended"], sums[GPU]) == (midnight(day + 86_400 + 60), 2, 4.0)
    said = {"today": {"since_s": since_s, **sums}, "gpus": [{"uuid": GPU, "harvest_s": sums[GPU]}], "broken": []}
    after = Today(said)  # the next fikitd's counters begin anew
    assert after.now({**zero, "ended": 1}, [], day + 86_400 + 120)[1]["ended"] == 3
    assert after.now({**zero, "ended": 1, GPU: 1.5}, [], day + 86_400 + 180)[1][GPU] == 5.5


def test_promises_that_were_broken_today_are_named_and_yesterdays_are_not(node: Node) -> None:
    day = midnight(NOW_S)
    zero = dict.fromkeys(status_format.COUNTS, 0.0)
    today = Today()
    broken = [{"job": str(number), "ended_s": day + number} for number in (-1, *range(1, 41))]
    named = today.now(zero, broken, NOW_S)[2]
    assert [each["job"] for each in named] == [str(number) for number in range(9, 41)]
    node.meter.job_ended(node.job(12, kept=False, kept_unknown=None, slowdown=1.3, max_slowdown=0.05))
    node.meter.job_ended(node.job(13, kept=True, kept_unknown=None, slowdown=1.0, max_slowdown=0.05))
    [said] = node.meter.broken()
    assert (said["job"], said["uid"], said["slowdown"], said["max_slowdown"]) == ("12", 4711, 1.3, 0.05)
    assert node.meter.broken() == []


def test_nvml_is_asked_who_has_which_gpu_alone(tmp_path: Path) -> None:
    async def ask(view: bool) -> list[dict[str, Any]]:
        assert view
        return [seen(GPU, 0), seen(OTHER, 1)]

    candidate(tmp_path, record(31, "1"))
    (tmp_path / "candidates" / "32").write_text("no record")
    (tmp_path / "candidates" / ".33.77").write_text("unfinished")
    use = GpuUse(tmp_path, 15, ask=ask)
    asyncio.run(use.look())
    holder = use.last.holder(OTHER)
    assert holder is not None
    assert holder.job == "31"
    assert use.last.holder(GPU) is None


def test_without_nvml_nothing_is_known_and_the_log_says_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_use, "AGAIN_S", 0.0)
    asked = 0

    async def ask(view: bool) -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise asyncio.CancelledError
        raise NoNvml("no driver")

    async def watch() -> None:
        use = GpuUse(tmp_path, 1, ask=ask)
        use._interval_s = 0.001  # type: ignore[assignment]
        with pytest.raises(asyncio.CancelledError):
            await use.watch()

    with caplog.at_level(logging.INFO):
        asyncio.run(watch())
    assert caplog.text.count("how busy GPUs are is not known, because of NVML: no driver") == 1


def test_nvml_is_not_asked_where_nobody_wants_to_know(tmp_path: Path) -> None:
    async def ask(view: bool) -> list[dict[str, Any]]:
        raise AssertionError

    asyncio.run(GpuUse(tmp_path, 0, ask=ask).watch())


def test_a_fikitd_writes_what_its_jobs_do_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "FRESH_S", 0.0)
    monkeypatch.setattr(status_file, "EVERY_S", 0.05)
    (shared := tmp_path / "shared").mkdir(mode=0o755)
    base = fakes.config_in(tmp_path)
    config = dataclasses.replace(base, daemon=dataclasses.replace(base.daemon, status_dir=str(shared)))

    def told() -> dict[str, Any]:
        found = statuses.read(shared, time.time())
        assert found.refused == {}
        return next(iter(found.by_node.values()), {})

    proc = FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    for run in (1, 2):
        core = FakeCore()
        with fakes.serving(config, core, proc.root):
            site = Daemon(config, core, proc, Control(config.daemon.run_dir))
            core.stats = {"kernels": 1}
            site.job(name="secret")
            client = site.client()
            eventually(lambda: any(gpu["jobs"] for gpu in told().get("gpus", ())))
            assert [job["job"] for job in told()["gpus"][0]["jobs"]] == ["12"]
            client.close()
            site.control.end("12")
            eventually(lambda: told()["today"]["ended"] == run)  # noqa: B023
    [path] = shared.iterdir()
    assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644


def test_storage_that_is_away_costs_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, node: Node
) -> None:
    monkeypatch.setattr(status_file, "EVERY_S", 0.01)
    missing = tmp_path / "missing"
    told, tries = file(node, missing), 0
    write = told.write

    async def counted() -> None:
        nonlocal tries
        tries += 1
        await write()

    monkeypatch.setattr(told, "write", counted)

    async def watch() -> None:
        watching = asyncio.ensure_future(told.watch())
        async with asyncio.timeout(20):
            while tries < 5:
                await asyncio.sleep(0.01)
        assert not watching.done()
        watching.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(watch())
    assert caplog.text.count("the status of this node cannot be written") == 1
    assert "No such file or directory" in caplog.text


def test_the_largest_status_that_a_node_writes_is_read(node: Node, tmp_path: Path) -> None:
    for number in range(256):
        node.client(
            number,
            node.job(1_000_000 + number, slowdown=1.0234567, max_slowdown=0.05),
            gpu=f"GPU-{number % 16:08x}-0405-0607-0809-0a0b0c0d0e0f",
        )
    asyncio.run(file(node, tmp_path).write())
    [path] = tmp_path.iterdir()
    document = statuses.read(tmp_path, NOW_S).by_node[os.uname().nodename.partition(".")[0].lower()]
    assert sum(len(gpu["jobs"]) for gpu in document["gpus"]) == 256
    assert path.stat().st_size < status_format.MOST_BYTES / 4
    assert json.loads(path.read_text())["version"] == 1
