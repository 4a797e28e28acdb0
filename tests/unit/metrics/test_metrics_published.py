"""A fikitd that publishes its metrics: over HTTP and in a file; and what hostile or unlucky surroundings cost it."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import pwd
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import daemon_fakes as fakes
import fikitd.daemon.server
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import ME, Daemon
from fikitd.api.client import Control
from fikitd.config.fikit_toml import MetricsConfig
from fikitd.metrics import meter, publisher, server, table
from prometheus_client.parser import text_string_to_metric_families


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "FRESH_S", 0.0)
    monkeypatch.setattr(meter, "LOOKS", 0)
    monkeypatch.setattr(publisher, "AGAIN_S", 0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(tmp_path: Path, **metrics: str) -> Iterator[Daemon]:
    config = dataclasses.replace(fakes.config_in(tmp_path), metrics=MetricsConfig(**metrics))
    core, proc = FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def site(tmp_path: Path, port: int) -> Iterator[Daemon]:
    """One that serves its metrics."""
    with serving(tmp_path, listen=f"127.0.0.1:{port}") as site:
        eventually(lambda: answers(port))
        yield site


def scrape(port: int, host: str = "127.0.0.1") -> str:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as answer:
        return str(answer.read(), "utf-8")


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        return bool(scrape(port, host))
    except OSError:
        return False


def value(text: str, metric: table.Metric) -> float:
    [found] = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == metric.name
    ]
    return float(found.value)


def test_a_scrape_has_what_a_job_did_and_keeps_it(site: Daemon, port: int) -> None:
    site.core.stats = {"kernels": 0}
    site.job(name="secret", priority=5)
    client = site.client()
    site.core.stats = {"kernels": 7, "gpu_time_ns": 1_500_000_000, "under_way_ns": 1_500_000_000}
    text = scrape(port)
    user = pwd.getpwuid(ME).pw_name
    assert f'fikit_job_gpu_seconds_total{{jobid="12",priority="5",user="{user}"}} 1.5' in text
    assert value(text, table.GPU_TIME) == 1.5
    assert value(text, table.JOBS) == value(text, table.PROCESSES) == 1
    assert value(text, table.EMULATED) == 1
    assert "secret" not in text
    client.close()
    eventually(lambda: "fikit_processes{" not in scrape(port))
    site.control.end("12")
    text = scrape(port)
    assert (value(text, table.ENDED), value(text, table.GPU_TIME)) == (1, 1.5)
    assert "jobid" not in text


def test_a_job_that_slurm_starts_again_has_ended_once(site: Daemon, port: int) -> None:
    site.core.stats = {"kernels": 1}
    for run in (1, 2):
        site.job(started_ns=run)
        site.client().close()
        eventually(lambda: "fikit_processes{" not in scrape(port))
    assert value(scrape(port), table.ENDED) == 1


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_served_too(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, listen=f"[::1]:{port}"):
        eventually(lambda: answers(port, "[::1]"))


def test_without_metrics_in_fikit_toml_nothing_is_served_and_nothing_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(fikitd.daemon.server, "Meter", never)
    monkeypatch.setattr(fikitd.daemon.server, "Publisher", never)
    with serving(tmp_path) as site:
        site.job()
        site.client().close()
        assert site.control.node()["unmanaged"] == []


def test_the_file_for_node_exporter_is_whole_and_everybodys_to_read(tmp_path: Path) -> None:
    path = tmp_path / "fikit.prom"
    with serving(tmp_path, textfile=str(path)):
        eventually(path.exists)
        names = {family.name for family in text_string_to_metric_families(path.read_text())}
        assert {"fikit_build_info", "fikit_jobs_ended"} <= names
        assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in tmp_path.iterdir() if "prom" in entry.name] == ["fikit.prom"]


def test_a_directory_that_is_missing_is_said_once_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "FILE_S", 0.05)
    missing = tmp_path / "exporter"
    with caplog.at_level(logging.WARNING), serving(tmp_path, textfile=f"{missing}/fikit.prom") as site:
        eventually(lambda: "no metrics are written" in caplog.text)
        time.sleep(0.2)
        assert site.control.node()["clients"] == []
        missing.mkdir()
        eventually((missing / "fikit.prom").exists)
    assert caplog.text.count("no metrics are written to") == 1
    assert "No such file or directory" in caplog.text


def test_a_port_that_is_taken_is_said_once_and_had_when_it_is_free(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as ours, caplog.at_level(logging.WARNING):
        taken = ours.enter_context(socket.socket())
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        site = ours.enter_context(serving(tmp_path, listen=f"127.0.0.1:{port}"))
        eventually(lambda: "no metrics are served" in caplog.text)
        time.sleep(0.3)
        site.job()
        site.client().close()
        taken.close()
        eventually(lambda: answers(port))
    assert caplog.text.count(f"no metrics are served on 127.0.0.1:{port}: Address already in use") == 1


def test_a_unit_that_lets_no_such_socket_be_opened_is_said_with_what_to_do(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(server, "Server", refused)
    with caplog.at_level(logging.WARNING), serving(tmp_path, listen=f"127.0.0.1:{port}") as site:
        eventually(lambda: "RestrictAddressFamilies=AF_INET AF_INET6" in caplog.text)
        assert site.control.node()["clients"] == []


def test_a_client_that_hangs_or_comes_many_times_takes_nothing_of_fikitd(
    site: Daemon, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WHOLE_S", 1.0)
    monkeypatch.setattr(server, "TICK_S", 0.1)
    before = threads()
    with ExitStack() as opened:
        crowd = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(60)]
        for each in crowd[::2]:
            each.sendall(b"GET /metrics HT")  # and no more
        site.job()
        site.client().close()  # fikitd serves
        assert site.control.node()["unmanaged"] == []
        assert threads() - before <= server.CONNECTIONS + 4  # fikitd's own file work

        def answers_although_they_send_on() -> bool:
            for each in crowd:
                with suppress(OSError):
                    each.send(b"T")
            return answers(port)

        eventually(answers_although_they_send_on)  # as soon as the first ones are hung up on


def test_who_sends_nonsense_gets_an_error_and_the_next_one_an_answer(site: Daemon, port: int) -> None:
    for nonsense in (
        b"\0" * 100,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n",
        b"GET " + b"x" * 70_000,
    ):
        with socket.create_connection(("127.0.0.1", port), 5) as hostile:
            hostile.sendall(nonsense)
            hostile.shutdown(socket.SHUT_WR)
            while hostile.recv(65536):
                pass
    assert answers(port)


def test_a_scrape_that_fikitd_does_not_answer_in_time_is_an_error_of_its_own(
    site: Daemon, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "LOOK_S", 0.05)
    stood = threading.Event()
    monkeypatch.setattr(meter.Meter, "_look", lambda *_: stood.wait(5) and {})  # the event loop stands still
    with pytest.raises(urllib.error.HTTPError) as caught:
        scrape(port)
    stood.set()
    assert caught.value.code == 503
    caught.value.close()


def test_the_address_is_free_when_fikitd_has_left(tmp_path: Path, port: int) -> None:
    with serving(tmp_path, listen=f"127.0.0.1:{port}"):
        eventually(lambda: answers(port))
    eventually(lambda: not answers(port))
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
