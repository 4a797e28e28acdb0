"""The shim beside other things that are put into a program: allocators, dlsym hooks, sanitizers, language runtimes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
SOURCES = Path(__file__).resolve().parents[1] / "programs/shim"
JEMALLOC = "libjemalloc.so.2"


def run(command: list[str | Path], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def loader(cc: Compile) -> Path:
    return cc(SOURCES / "shim_loads.c")


@pytest.fixture(params=["before", "after"])
def preload(request: pytest.FixtureRequest, shim: Path) -> Callable[[str | Path], str]:
    """LD_PRELOAD with another library before or after the shim."""
    return lambda other: f"{other} {shim}" if request.param == "before" else f"{shim} {other}"


def test_jemalloc(
    preload: Callable[[str | Path], str], loader: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    """With RTLD_DEEPBIND the driver would free with libc what jemalloc gave to strdup."""
    if JEMALLOC not in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("libjemalloc2 is not installed")
    fikitd = daemon()
    done = run([loader, "name"], shim_env(LD_PRELOAD=preload(JEMALLOC), FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


def test_library_that_hooks_dlsym_keeps_its_hook(
    preload: Callable[[str | Path], str], cc: Compile, loader: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    neighbour = cc(SOURCES / "shim_neighbour.c", "-shared", "-fPIC")
    fikitd = daemon()
    done = run([loader, "name"], shim_env(LD_PRELOAD=preload(neighbour), FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "neighbour: 1 launches\n", "")
    assert fikitd.page().launches() == 1


@pytest.mark.parametrize("sanitizer", ["address", "thread", "undefined"])
def test_program_with_a_sanitizer(sanitizer: str, cc: Compile, shim_env: Environment, daemon: StartDaemon) -> None:
    program = cc(SOURCES / "shim_loads.c", f"-fsanitize={sanitizer}")
    fikitd = daemon()
    env = shim_env(FIKIT_SOCKET=str(fikitd.path))
    alone = run([program, "name"], {key: value for key, value in env.items() if key != "LD_PRELOAD"})
    if alone.returncode != 0:
        pytest.skip(f"{sanitizer} sanitizer does not run here: {alone.stderr}")
    done = run([program, "name"], env)
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


def test_address_sanitizer_still_finds_what_it_is_for(cc: Compile, shim_env: Environment, tmp_path: Path) -> None:
    source = tmp_path / "overflow.c"
    source.write_text(
        "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(4); int at = 4; p[at] = 1; return 0; }"
    )
    done = run([cc(source, "-fsanitize=address")], shim_env())
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


def test_java_starts_and_ends_as_ever(shim_env: Environment, tmp_path: Path) -> None:
    """Its own signal handlers, guard pages and dlopen habits; what it prints is the same, byte for byte."""
    java = shutil.which("java")
    if not java:
        pytest.skip("no java on this machine; test_shim_hostile.py has a program with the same habits")
    env = shim_env(FIKIT_SOCKET=str(tmp_path / "nobody.sock"))
    plain = {key: value for key, value in env.items() if key != "LD_PRELOAD"}
    command: list[str | Path] = [java, "-Xint", "-XX:+UseSerialGC", "-version"]
    with_shim, without = run(command, env), run(command, plain)
    assert (with_shim.returncode, with_shim.stdout, with_shim.stderr) == (
        without.returncode,
        without.stdout,
        without.stderr,
    )
