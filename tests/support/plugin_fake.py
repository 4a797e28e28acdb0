"""The SPANK plugin's C code loaded into Python with a fake Slurm (fake_spank.c)."""

from __future__ import annotations

import ctypes
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "slurm_plugin" / "src"
NEEDS_SLURM = {"fikit_alloc", "fikit_dispatch"}
HAVE_HEADERS = Path("/usr/include/slurm/spank.h").exists()

# What is and what is not a share or a time, for everybody who reads them.
SHARES = ["5%", "0.05", "0%", "0", "1", "100%", "12.5%", "0.000001", "99.9999%", "5.5%",
          "", "5", "101%", "-5%", "5 %", "5%%", "5.%", ".5", "1.000001", "100.000001%", "0.0000001", "nan", "five", "1e-2", "9" * 200]  # fmt: skip
TIMES = ["200us", "200µs", "1.5ms", "0us", "0.5us", "2s", "3600s", "3600000ms", "17ns",
         "", "200", "us", "1h", "-1us", "200 us", "1.us", "3601s", "3600.1s", "1e3us", "999999999999s", "9" * 200 + "s"]  # fmt: skip


class Options(ctypes.Structure):
    """struct fikit_options of fikit_args.h."""

    _fields_ = (
        ("priority", ctypes.c_int),
        ("automatic", ctypes.c_bool),
        ("auto_highest", ctypes.c_int),
        ("auto_lowest", ctypes.c_int),
        ("measure", ctypes.c_bool),
        ("mem_bytes", ctypes.c_uint64),
        ("mem_host_bytes", ctypes.c_uint64),
        ("profile", ctypes.c_char * 65),
        ("max_slowdown_ppm", ctypes.c_int32),
        ("max_delay_ns", ctypes.c_int64),
    )


class Record(ctypes.Structure):
    """struct fikit_record of fikit_record.h."""

    _fields_ = (
        ("job", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("options", Options),
        ("gpus", ctypes.c_char * 256),
        ("name", ctypes.c_char * 129),
        ("array", ctypes.c_char * 24),
        ("het", ctypes.c_char * 24),
        ("batch", ctypes.c_bool),
        ("started_ns", ctypes.c_int64),
        ("sluid", ctypes.c_char * 15),
        ("restart", ctypes.c_uint32),
    )


class Config(ctypes.Structure):
    """struct fikit_config of fikit_config.h."""

    _fields_ = (
        ("enabled", ctypes.c_bool),
        ("systemd", ctypes.c_bool),
        ("report", ctypes.c_bool),
        ("default_priority", ctypes.c_int),
        ("run_dir", ctypes.c_char_p),
        ("daemon", ctypes.c_char_p),
        ("fikit_toml", ctypes.c_char_p),
        ("shim", ctypes.c_char * 4096),
    )


def load(cc: Callable[..., Path], directory: Path, *flags: str) -> ctypes.CDLL:
    """A copy of the plugin in `directory`: a copy has static variables of its own."""
    sources = sorted(str(path) for path in SOURCES.rglob("*.c") if path.stem not in NEEDS_SLURM)
    library = cc(
        "tests/support/fake_spank.c",
        "-shared",
        "-fPIC",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        f"-I{SOURCES}",
        *flags,
        *sources,
    )
    directory.mkdir()
    return declare(ctypes.CDLL(str(shutil.copy(library, directory / "plugin.so"))))


def declare(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The plugin, with the types of what its functions return."""
    loaded.fikit_config.restype = ctypes.POINTER(Config)
    loaded.fikit_args_of_job.restype = Options
    for function in (
        "parse_priority",
        "parse_range",
        "preload_with",
        "preload_without",
        "parse_share",
        "parse_time",
        "control",
        "record_read",
    ):
        getattr(loaded, f"fikit_{function}").restype = ctypes.c_bool
    return loaded


def log_of(plugin: ctypes.CDLL) -> str:
    return (ctypes.c_char * 8192).in_dll(plugin, "fake_log").value.decode()


def set_job_option(plugin: ctypes.CDLL, name: str, value: str) -> None:
    """The job was submitted with --name=value and no other option."""
    (ctypes.c_char * 64).in_dll(plugin, "fake_option_name").value = name.encode()
    (ctypes.c_char * 256).in_dll(plugin, "fake_option_value").value = value.encode()


def environment(plugin: ctypes.CDLL, new: dict[str, str] | None = None) -> dict[str, str]:
    """The task's environment, after setting it to `new` if given."""
    entries = (ctypes.c_char * 512 * 16).in_dll(plugin, "fake_environment")
    if new is not None:
        for index, entry in enumerate(entries):
            entry.value = b"" if index >= len(new) else "=".join(list(new.items())[index]).encode()
    return dict(entry.value.decode().split("=", 1) for entry in entries if entry.value)


def set_step(plugin: ctypes.CDLL, step: int, tasks: int = 1) -> None:
    ctypes.c_uint.in_dll(plugin, "fake_step").value = step
    ctypes.c_uint.in_dll(plugin, "fake_tasks").value = tasks


def job_option(plugin: ctypes.CDLL, name: str, value: str) -> Options:
    """What the node understands of --name=value."""
    set_job_option(plugin, name, value)
    options = plugin.fikit_args_of_job(None)
    assert isinstance(options, Options)
    return options


def load_config(plugin: ctypes.CDLL, *words: str) -> Config:
    array = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    plugin.keep = array  # Slurm keeps the words as long as the plugin
    config = plugin.fikit_config(len(words), array).contents
    assert isinstance(config, Config)
    return config


@contextmanager
def said_by_slurm(**variables: str | int | None) -> Iterator[None]:
    """The environment of a prolog or an epilog; None: without the variable."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in variables.items():
            environment.delenv(name, raising=False)
            if value is not None:
                environment.setenv(name, str(value))
        yield


class Node:
    """One node: the plugin, its run_dir, and the requests that its fikitd heard."""

    def __init__(self, plugin: ctypes.CDLL, run_dir: Path, *words: str) -> None:
        self.plugin, self.run_dir = plugin, run_dir
        self.config: Config = load_config(plugin, f"run_dir={run_dir}", "systemd=off", *words)
        self.heard: list[str] = []
        self.record = run_dir / "jobs" / "12"
        self.answer = b"ok\n"
        self.silent = False

    def stops_answering(self) -> None:
        """Whoever asks from now on is heard, and hears nothing."""
        self.silent = True

    def prolog(self, gpus: str | None = "1", restart: int | None = None, sluid: str | None = None) -> None:
        with said_by_slurm(SLURM_JOB_GPUS=gpus, SLURM_JOB_RESTART_COUNT=restart, SLURM_JOB_SLUID=sluid):
            self.plugin.fikit_node_prolog(None, ctypes.byref(self.config))

    def epilog(self, restart: int | None = None) -> None:
        with said_by_slurm(SLURM_JOB_RESTART_COUNT=restart):
            self.plugin.fikit_node_epilog(None, ctypes.byref(self.config))

    def post_opt(self) -> None:
        self.plugin.fikit_step_post_opt(None, ctypes.byref(self.config))

    def task_init(self) -> None:
        self.plugin.fikit_step_task_init(None, ctypes.byref(self.config))

    def task_exit(self) -> None:
        self.plugin.fikit_step_task_exit(None, ctypes.byref(self.config))

    def log(self) -> str:
        return log_of(self.plugin)


@contextmanager
def answering(node: Node, listen: Callable[[Callable[[], None]], object] = lambda listen: listen()) -> Iterator[Node]:
    """A fikitd on the node that answers `node.answer` to everything. `listen` says as whom."""
    node.run_dir.mkdir()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(node.run_dir / "control.sock"))
    listen(listener.listen)

    def serve() -> None:
        with ExitStack() as unanswered:
            while True:
                connection, _ = listener.accept()
                with ExitStack() as answered:
                    (unanswered if node.silent else answered).enter_context(connection)
                    request = connection.recv(1024).decode()
                    if request == "leave":
                        return
                    if not request:  # whoever connected did not ask
                        continue
                    node.heard.append(request)
                    if not node.silent:
                        connection.send(node.answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield node
    finally:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(str(node.run_dir / "control.sock"))
            last.send(b"leave")
        thread.join()
        listener.close()
