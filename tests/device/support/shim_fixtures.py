"""Fixtures of the shim's tests: the stand-in driver, a fake daemon, programs that run under the shim."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shim_daemon import Daemon, Layout, layout
from shim_program import FAKE_CUDA, Program, driver_of
from shim_table import SYMBOLS

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "programs/shim"
PROTOCOL = HERE.parents[2] / "fikitd" / "core" / "protocol"

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def shim(native: Path) -> Path:
    return native / "libfikit_shim.so"


@pytest.fixture(scope="session")
def fake_cuda(cc: Compile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in driver."""
    return driver_of(cc(*FAKE_CUDA), tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def whole_driver(cc: Compile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in driver, with a stub for every name that it does not define."""
    stubs = tmp_path_factory.mktemp("stubs") / "stubs.c"
    stub = '__attribute__((weak, visibility("default"))) int {0}(void) {{ return fake_called("{0}"); }}\n'
    stubs.write_text("int fake_called(const char *);\n" + "".join(stub.format(symbol) for symbol in SYMBOLS))
    library = cc(*FAKE_CUDA, str(stubs))
    return driver_of(library, tmp_path_factory.mktemp("whole-driver"))


@pytest.fixture(scope="session")
def page_layout(cc: Compile) -> Layout:
    return layout(cc(SOURCES / "shim_offsets.c", f"-I{PROTOCOL}"))


@pytest.fixture
def shim_env(shim: Path, fake_cuda: Path) -> Environment:
    """A function that returns an environment with the shim preloaded over the stand-in driver."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FIKIT_", "EMUCUDA_", "CUDA_", "LD_"))}
    base = {
        **clean,
        "LD_PRELOAD": str(shim),
        "LD_LIBRARY_PATH": str(fake_cuda.parent),
        "FAKE_CUDA": str(fake_cuda),
        "PYTHONPATH": str(HERE),
    }
    return lambda **more: {**base, **more}


@pytest.fixture
def daemon(tmp_path: Path, page_layout: Layout) -> Iterator[Callable[..., Daemon]]:
    """A function that starts a fake daemon; all are stopped at the end."""
    running: list[Daemon] = []

    def start(**options: object) -> Daemon:
        running.append(Daemon(tmp_path / f"fikitd{len(running)}.sock", page_layout, **options))  # type: ignore[arg-type]
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


@pytest.fixture
def program(shim_env: Environment) -> Iterator[Callable[..., Program]]:
    """A function that starts `code` under the shim, managed by `daemon` if one is given."""
    started: list[Program] = []

    def start(code: str, daemon: Daemon | None = None, **env: str) -> Program:
        if daemon:
            env["FIKIT_SOCKET"] = str(daemon.path)
        started.append(Program(code, shim_env(**env)))
        return started[-1]

    yield start
    for each in started:
        each.close()
