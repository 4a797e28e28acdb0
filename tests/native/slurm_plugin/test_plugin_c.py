"""The SPANK plugin's parts that need no Slurm: parsing, records, LD_PRELOAD, the control socket's deadline."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fikitd.base import priorities, quantities
from fikitd.store.records import JobRecord
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugin_fake import HAVE_HEADERS, SHARES, TIMES, Options, Record, job_option, load, load_config, log_of

from fikitd import paths

GIB = 2**30

pytestmark = pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev")


@pytest.fixture
def plugin(cc: Callable[..., Path], tmp_path: Path) -> ctypes.CDLL:
    return load(cc, tmp_path / "slurm")


def test_priority_table_is_the_one_of_fikitd(plugin: ctypes.CDLL) -> None:
    words = [*priorities.NAMES, *"0123456789", "", "10", "-1", "High", "urgent", "1 "]
    for word in words:
        number = ctypes.c_int(-1)
        known = plugin.fikit_parse_priority(word.encode(), ctypes.byref(number))
        try:
            assert (known, number.value) == (True, priorities.parse(word))
        except ValueError:
            assert not known


@pytest.mark.parametrize(
    ("text", "size"),
    [("20G", 20 * GIB), ("512M", GIB // 2), ("1T", 1024 * GIB), ("2g", 2 * GIB), ("4096", 4 * GIB), ("16GiB", 16 * GIB), ("3GB", 3 * GIB), ("1048576K", GIB)],
)  # fmt: skip
def test_memory_is_read_as_slurm_reads_it(plugin: ctypes.CDLL, text: str, size: int) -> None:
    assert job_option(plugin, "fikit-mem", text).mem_bytes == size
    assert job_option(plugin, "fikit-mem-host", text).mem_host_bytes == size


@pytest.mark.parametrize(
    "text", ["lots", "", "0", "-1", "1.5G", "G", "20X", "20GG", "20 G", "99999999999999999999", "9999999999T"]
)
def test_memory_that_is_no_size_is_ignored_on_the_node(plugin: ctypes.CDLL, text: str) -> None:
    assert job_option(plugin, "fikit-mem", text).mem_bytes == 0
    assert log_of(plugin).count("\n") == 1


@pytest.mark.parametrize("text", ["../../etc", "a/b", "", "x" * 65, "a b", ".hidden", "a\nb"])
def test_profile_name_cannot_become_a_path(plugin: ctypes.CDLL, text: str) -> None:
    assert job_option(plugin, "fikit-profile", text).profile == b""


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({}, "FIKIT_ONLY_WISHED=1"),
        ({"fikit-priority": "low"}, "FIKIT_VARIABLES=mem mem_host"),
        ({"fikit-mem": "4G"}, "FIKIT_VARIABLES=mem_host"),
    ],
)
def test_what_is_a_variable_travels_with_the_job(
    plugin: ctypes.CDLL, typed: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIKIT_MEM", "8G")
    monkeypatch.setenv("FIKIT_MEM_HOST", "16G")
    plugin.fikit_args_register(None)
    for name, text in typed.items():
        plugin.fake_give(name.encode(), text.encode())
    plugin.fikit_args_from_environment(None)
    sent = (ctypes.c_char * 4096).in_dll(plugin, "fake_sent").value.decode().splitlines()
    assert sent[-1] == words
    assert "_SLURM_SPANK_OPTION_fikit_fikit_mem_host=16G" in sent


def of_fikitd(read: Callable[[str], float], text: str) -> float | None:
    try:
        return read(text)
    except ValueError:
        return None


@pytest.mark.parametrize("text", SHARES)
def test_shares_are_those_of_fikitd(plugin: ctypes.CDLL, text: str) -> None:
    expected = of_fikitd(quantities.share, text)
    ppm = ctypes.c_int32(-1)
    known = plugin.fikit_parse_share(text.encode(), ctypes.byref(ppm))
    assert (known, ppm.value) == ((False, -1) if expected is None else (True, round(expected * 1e6)))
    assert job_option(plugin, "fikit-max-slowdown", text).max_slowdown_ppm == ppm.value


@pytest.mark.parametrize("text", TIMES)
def test_times_are_those_of_fikitd(plugin: ctypes.CDLL, text: str) -> None:
    expected = of_fikitd(quantities.nanoseconds, text)
    ns = ctypes.c_int64(-1)
    known = plugin.fikit_parse_time(text.encode(), ctypes.byref(ns))
    assert (known, ns.value) == ((False, -1) if expected is None else (True, expected))
    assert job_option(plugin, "fikit-max-delay", text).max_delay_ns == ns.value


def test_flag_arrives_on_the_node_as_null_text(plugin: ctypes.CDLL) -> None:
    assert job_option(plugin, "fikit-measure", "(null)").measure
    assert not job_option(plugin, "fikit-priority", "high").measure


def test_config_defaults(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    config = load_config(plugin)
    assert (config.enabled, config.systemd, config.report) == (True, True, True)
    assert config.default_priority == -1, "it is fikit.toml's"
    assert config.run_dir == b"/run/fikit"
    assert Path(config.shim.decode()) == tmp_path / "libfikit_shim.so"
    assert log_of(plugin) == ""


def test_config_words(plugin: ctypes.CDLL) -> None:
    config = load_config(plugin, "enabled=no", "systemd=off", "report=off", "default_priority=low", "run_dir=/r",
                         "daemon=/d", "config=/c", "shim=/s")  # fmt: skip
    assert (config.enabled, config.systemd, config.report) == (False, False, False)
    assert config.default_priority == priorities.parse("low")
    assert (config.run_dir, config.daemon, config.fikit_toml, config.shim) == (b"/r", b"/d", b"/c", b"/s")
    assert log_of(plugin) == ""


@pytest.mark.parametrize(
    "word", ["colour=red", "enabled=maybe", "run_dir=relative", "default_priority=urgent", "words"]
)
def test_wrong_word_is_one_sentence_and_changes_nothing(plugin: ctypes.CDLL, word: str) -> None:
    config = load_config(plugin, word, "report=off")
    assert log_of(plugin).count("\n") == 1
    assert f'"{word}"' in log_of(plugin)
    assert (config.run_dir, config.default_priority, config.report) == (b"/run/fikit", -1, False)


def test_preload_puts_the_shim_first_once_and_keeps_the_users_entries(plugin: ctypes.CDLL) -> None:
    out = ctypes.create_string_buffer(100)
    for before, after in [
        ("", "/s"),
        ("/a:/b", "/s:/a:/b"),
        ("/a /b", "/s:/a:/b"),
        ("/s:/a", "/s:/a"),
        ("/a:/s:/s", "/s:/a"),
        ("::/a::", "/s:/a"),
        ("/s2:/a/s", "/s:/s2:/a/s"),
    ]:
        assert plugin.fikit_preload_with(before.encode(), b"/s", out, len(out))
        assert out.value.decode() == after
        assert plugin.fikit_preload_without(out.value, b"/s", out2 := ctypes.create_string_buffer(100), 100)
        assert out2.value.decode() == after.removeprefix("/s").removeprefix(":")
    assert not plugin.fikit_preload_with(b"/a:/bbbbbbb", b"/s", out, 8)


def test_preload_entry_names_the_platforms_directory_where_there_is_one(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    """As fikitd.paths writes it. An older fikit's jobs have the path itself."""
    shim, out = tmp_path / "shim.so", ctypes.create_string_buffer(1000)
    (tmp_path / "x86_64").mkdir()
    (tmp_path / "x86_64" / "shim.so").touch()
    entry = paths.preload_entry(shim)
    assert entry == f"{tmp_path}/$PLATFORM/shim.so"
    for before in ("/a:/b", f"{shim}:/a:/b", f"{entry}:/a /b", f"/a:{shim}:{entry}:/b"):
        assert plugin.fikit_preload_with(before.encode(), str(shim).encode(), out, len(out))
        assert out.value.decode() == f"{entry}:/a:/b"
        assert plugin.fikit_preload_without(before.encode(), str(shim).encode(), out, len(out))
        assert out.value == b"/a:/b"
    (tmp_path / "x86_64" / "shim.so").unlink()
    assert plugin.fikit_preload_with(f"{entry}:/a".encode(), str(shim).encode(), out, len(out))
    assert out.value.decode() == f"{shim}:/a"


def a_record(**changes: object) -> Record:
    record = Record(job=12, uid=33, gid=44, name=b"train", gpus=b"0", batch=True, started_ns=1_700_000_000_000_000_000)
    record.options = Options(
        priority=1, measure=False, mem_bytes=20 * GIB, profile=b"resnet", max_slowdown_ppm=-1, max_delay_ns=-1
    )
    for key, value in changes.items():
        setattr(record, key, value)
    return record


def write(plugin: ctypes.CDLL, run_dir: Path, record: Record) -> Path:
    assert plugin.fikit_record_directory(str(run_dir).encode()) == 0
    assert plugin.fikit_record_write(str(run_dir).encode(), ctypes.byref(record)) == 0
    return run_dir / "jobs" / str(record.job)


def test_record_is_what_fikitd_reads(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    path = write(plugin, tmp_path / "run", a_record())
    record = JobRecord.read(path)
    assert (record.job, record.uid, record.gid, record.priority, record.measure) == ("12", 33, 44, 1, False)
    assert (record.mem_bytes, record.profile, record.gpus, record.name) == (20 * GIB, "resnet", "0", "train")
    assert record.started_ns == 1_700_000_000_000_000_000
    assert path.stat().st_mode & 0o7777 == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["12"], "no temporary file stays"


def test_record_survives_a_round_trip_and_belongs_to_its_user(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    write(plugin, tmp_path, a_record())
    read = Record()
    assert plugin.fikit_record_read(str(tmp_path).encode(), 12, 33, ctypes.byref(read))
    assert (read.options.priority, read.options.profile, read.name, read.batch) == (1, b"resnet", b"train", True)
    assert not plugin.fikit_record_read(str(tmp_path).encode(), 12, 34, ctypes.byref(read))
    assert not plugin.fikit_record_read(str(tmp_path).encode(), 13, 33, ctypes.byref(read))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((50_000, 200_000), (0.05, 200_000)),
        ((0, 0), (0.0, 0)),
        ((1_000_000, -1), (1.0, None)),
        ((-1, 7), (None, 7)),
        ((-1, -1), (None, None)),
    ],
)
def test_what_lower_jobs_may_cost_is_in_the_record_only_when_asked_for(
    plugin: ctypes.CDLL, tmp_path: Path, asked: tuple[int, int], expected: tuple[float | None, int | None]
) -> None:
    record = a_record()
    record.options.max_slowdown_ppm, record.options.max_delay_ns = asked
    known = JobRecord.read(write(plugin, tmp_path, record))
    assert (known.max_slowdown, known.max_delay_ns) == expected
    again = Record()
    assert plugin.fikit_record_read(str(tmp_path).encode(), 12, 33, ctypes.byref(again))
    assert (again.options.max_slowdown_ppm, again.options.max_delay_ns) == asked


def test_a_range_is_in_the_record_and_stays_there_when_a_step_completes_it(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    record = a_record()
    record.options.automatic, record.options.auto_highest, record.options.auto_lowest = True, 1, 8
    path = write(plugin, tmp_path, record)
    assert JobRecord.read(path).auto == (1, 8)
    again = Record()
    assert plugin.fikit_record_read(str(tmp_path).encode(), 12, 33, ctypes.byref(again))
    before = path.read_bytes()
    assert plugin.fikit_record_write(str(tmp_path).encode(), ctypes.byref(again)) == 0
    assert path.read_bytes() == before


def test_job_name_cannot_add_a_line_to_the_record(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    path = write(plugin, tmp_path, a_record(name=b"x\npriority=0\nuid=0"))
    record = JobRecord.read(path)
    assert (record.priority, record.uid, record.name) == (1, 33, "xpriority=0uid=0")


# Each with what the record says instead.
NAMES = [
    (b"t\xe4st", "t?st"),  # Latin-1
    ("größe 大".encode(), "größe 大"),
    (b"x\xc2\x85priority=0", "xpriority=0"),
    ("x\u2028priority=0\u2029uid=0".encode(), "xpriority=0uid=0"),
    (b"\x1b[31mred", "[31mred"),
    (b"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80", "?" * 9),  # too long, a surrogate, beyond the last character
    (b"cut \xe5\xa4", "cut "),
    (b"a\xe5b", "a?b"),
]


@pytest.mark.parametrize(("name", "read"), NAMES)
def test_a_name_that_is_no_clean_utf8_is_in_the_record_as_far_as_it_can_be(
    plugin: ctypes.CDLL, tmp_path: Path, name: bytes, read: str
) -> None:
    path = write(plugin, tmp_path, a_record(name=name))
    assert (JobRecord.read(path).name, path.read_bytes().decode().count("\n")) == (read, 16)


@given(name=st.binary(max_size=128).filter(lambda name: b"\0" not in name), cut=st.integers(0, 128))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_become_printable_utf8_that_fits(plugin: ctypes.CDLL, name: bytes, cut: int) -> None:
    clean = ctypes.create_string_buffer(b"\1" * 200, 200)
    plugin.fikit_printable(name, clean, cut + 1)
    assert len(clean.value) <= cut
    text = clean.value.decode()  # strictly
    assert len(text.splitlines()) <= 1
    if (whole := name.decode(errors="ignore")).isprintable() and whole.encode() == name and len(name) <= cut:
        assert text == whole


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[bytes | None], Path]]:
    """A control socket that answers every request with the given packet, or never."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(answer: bytes | None) -> Path:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen()

        def once() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # nobody came
            connection.recv(1024)
            if answer is None:
                held.append(connection)
            else:
                connection.send(answer)
                connection.close()

        threads.append(threading.Thread(target=once, daemon=True))
        threads[-1].start()
        return tmp_path

    yield serve
    if threads:
        listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(5)
    for connection in [*held, listener]:
        connection.close()


@contextmanager
def roots_socket(run_dir: Path) -> Iterator[None]:
    """The control socket of root's hooks, which answers one request."""
    (run_dir / "hooks").mkdir()
    directory = os.open(run_dir / "hooks", os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as roots:
        roots.bind(f"/proc/self/fd/{directory}/control.sock")
        os.close(directory)
        roots.listen()

        def once() -> None:
            with roots.accept()[0] as connection:
                connection.recv(1024)
                connection.send(b"ok\nroot's")

        asked = threading.Thread(target=once, daemon=True)
        asked.start()
        yield
        asked.join(10)


def ask(plugin: ctypes.CDLL, run_dir: Path, timeout_ms: int = 2000) -> str | None:
    payload = ctypes.create_string_buffer(256)
    answered = plugin.fikit_control(str(run_dir).encode(), b"summary 12 batch", timeout_ms, payload, 256)
    return payload.value.decode() if answered else None


@pytest.mark.parametrize(
    ("answer", "payload"),
    [(b"ok\nfikit: job 12 high\n", "fikit: job 12 high\n"), (b"ok\n", ""), (b"error not yours\n", None), (b"okay\n", None), (b"", None)],
)  # fmt: skip
def test_control_takes_the_payload_of_ok_only(plugin: ctypes.CDLL, server: Callable[[bytes | None], Path], answer: bytes, payload: str | None) -> None:  # fmt: skip
    assert ask(plugin, server(answer)) == payload


def test_control_gives_up_at_its_deadline(plugin: ctypes.CDLL, server: Callable[[bytes | None], Path]) -> None:
    run_dir = server(None)
    before = time.monotonic()
    assert ask(plugin, run_dir, timeout_ms=100) is None
    assert 0.09 <= time.monotonic() - before < 2


def test_control_asks_where_users_cannot_fill_the_socket(plugin: ctypes.CDLL, server: Callable[[bytes | None], Path], tmp_path: Path) -> None:  # fmt: skip
    run_dir = server(b"error it is everybody's\n")
    with roots_socket(run_dir):
        assert ask(plugin, run_dir) == "root's"


def test_control_reaches_a_socket_whose_path_fits_into_no_address(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    run_dir = tmp_path / ("x" * 150)
    run_dir.mkdir()
    with roots_socket(run_dir):
        assert ask(plugin, run_dir) == "root's"


def test_control_without_daemon_fails_at_once(plugin: ctypes.CDLL, tmp_path: Path) -> None:
    assert ask(plugin, tmp_path) is None
