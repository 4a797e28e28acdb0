"""The `node` verb: who uses a node's GPUs now, and what of it whom is told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import ME, Daemon, as_nobody
from fikit.api import link_rates
from fikit.checks import daemon as doctor
from fikit.site_paths import Place
from fikitd.api.client import Control
from fikitd.api.job_time import NONE
from fikitd.api.node_format import TIME
from fikitd.clients import present
from fikitd.clients.memory_rotation import MemoryRotation
from fikitd.clients.present import PUBLIC


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Daemon]:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "FRESH_S", 0.0)
    monkeypatch.setattr(present, "LOOKS", 0)


def test_a_client_is_there_from_its_welcome_to_its_end(site: Daemon) -> None:
    assert site.control.node()["clients"] == []
    site.core.stats = {"kernels": 7, "gpu_time_ns": 1_500_000_000}
    site.job(mem_bytes=2**30, name="train")
    client = site.client()
    look = site.control.node()
    [seen] = look["clients"]
    [gpu] = look["gpus"]
    assert (gpu["uuid"], gpu["emulated"], look["unmanaged"]) == (seen["gpu"], True, [])
    assert {key: seen[key] for key in ("job", "uid", "priority", "name", "kernels", "gpu_time_s")} == {
        "job": "12", "uid": ME, "priority": 1, "name": "train", "kernels": 7, "gpu_time_s": 1.5,
    }  # fmt: skip
    assert (seen["pid"], seen["memory_limit_bytes"], seen["memory_bytes"]) == (os.getpid(), 2**30, 0)
    client.close()
    eventually(lambda: site.control.node()["clients"] == [])
    assert site.control.node()["gpus"] == []


def test_a_client_says_of_its_job_what_the_jobs_report_says(site: Daemon) -> None:
    spent = {**NONE, "elapsed_ns": 8 * 10**9, "waited_ns": 10**9, "delayed_ns": 5 * 10**8}
    site.core.stats = {"kernels": 7, "spent": spent}
    site.job()
    client = site.client()
    [seen], report = site.control.node()["clients"], site.control.job("12")
    assert seen["job_time"] == {key: report[key] for key in TIME}
    assert (seen["job_time"]["waited_s"], seen["job_time"]["delayed_s"]) == (1.0, 0.5)
    client.close()


def test_the_links_rates_are_told_where_moves_have_shown_them(site: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the job's own user and root, as `fikit profile show` asks for them."""
    place = Place(Path(site.config.daemon.run_dir), Path(), Path())
    monkeypatch.setattr(link_rates, "places", lambda: [place])
    rates: list[float | None] = [None, None]
    monkeypatch.setattr(MemoryRotation, "link_of", lambda *_: tuple(rates))
    site.job()
    client = site.client()
    [gpu], [seen] = (site.control.node()[key] for key in ("gpus", "clients"))
    assert seen["link"] is None
    assert link_rates.of_gpu(gpu["name"]) == link_rates.ASSUMED
    rates[0] = 48e9
    [seen] = site.control.node()["clients"]
    assert seen["link"] == {"in_bytes_per_s": 48e9, "out_bytes_per_s": None}
    assert link_rates.of_gpu(gpu["name"]) == link_rates.LinkRates(48e9, None)
    assert link_rates.of_gpu("another GPU") == link_rates.ASSUMED
    client.close()
    eventually(lambda: site.control.node()["clients"] == [])
    assert link_rates.of_gpu(gpu["name"]) == link_rates.ASSUMED


def test_what_was_measured_of_a_gpus_switch_is_told_while_jobs_share_it(site: Daemon) -> None:
    daemon = site.config.daemon
    place = Place(Path(daemon.run_dir), Path(daemon.report_dir), Path(daemon.profile_dir))
    site.job()
    client = site.client()
    [gpu] = site.control.node()["gpus"]
    assert gpu["switch"] is None
    assert list(doctor.switches(place)) == []
    site.core.remembered = (50_000, 3_600, 8)
    [gpu] = site.control.node()["gpus"]
    assert gpu["switch"] == {"switch_us": 50.0, "spread_us": 3.6, "samples": 0}
    [check] = doctor.switches(place)
    assert check.found == f"{gpu['uuid']}: switch 50 us ± 4 (measured on this GPU before)"
    client.close()
    eventually(lambda: list(doctor.switches(place)) == [])
    assert list(doctor.switches(Place(place.run_dir / "none", place.report_dir, place.profile_dir))) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_others_see_what_squeue_and_nvidia_smi_tell_them(site: Daemon, tmp_path: Path) -> None:
    site.job(name="secret")
    client = site.client()
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    [seen] = as_nobody(Control(site.run_dir).node)["clients"]
    assert sorted(seen) == sorted(PUBLIC)
    client.close()


def test_asking_often_does_not_ask_the_dispatchers_each_time(
    site: Daemon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(present, "FRESH_S", 3600.0)
    site.job()
    client = site.client()
    first = site.control.node()
    site.core.stats = {"kernels": 1000}
    assert site.control.node() == first
    client.close()


def test_programs_around_fikit_are_named_while_they_are_there(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    around = [("GPU-x", 4711)]
    there = present.Present("budget", lambda: around)
    assert json.loads(there.view(0))["unmanaged"] == [{"gpu": "GPU-x", "pid": 4711}]
    around.clear()
    assert json.loads(there.view(0))["unmanaged"] == []
    config = fakes.config_in(tmp_path)
    with fakes.serving(config, FakeCore(), proc.root):
        assert Control(config.daemon.run_dir).node()["unmanaged"] == []


def test_the_node_says_which_fikit_toml_fikitd_goes_by(tmp_path: Path) -> None:
    config = fakes.config_in(tmp_path, lease_ms=50)
    with fakes.serving(config, FakeCore(), tmp_path):
        said = Control(config.daemon.run_dir).node()["config"]
    assert said == config.mark() != fakes.config_in(tmp_path).mark()
