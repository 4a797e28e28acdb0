"""Children, daemons and ends of every kind: the program goes on and ends as it does without the shim."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shim_daemon import Daemon, wait_for
from shim_hostile import build, outcome, without_shim

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
HOW: dict[str, dict[str, object]] = {
    "open": {},
    "measure": {"measure": True},
    "closed": {"closed": True, "lease_s": 0.2},
    "limit": {"limit_bytes": 1 << 30},
}
HABITS = [
    "fork",
    "fork beside busy threads",
    "vfork",
    "posix_spawn",
    "exec",
    "_exit",
    "exit",
    "crash in atexit",
    "launch in atexit",
    "pthread_exit of main",
]


@pytest.fixture(scope="module")
def program(cc: Compile, fake_cuda: Path) -> Path:
    return build(cc, "shim_hostile_process.c", fake_cuda)


# With a closed gate every launch of every child of busy threads would wait for a lease: that is not what is tested.
BUSY = "fork beside busy threads"
WAYS = [
    (habit, how)
    for habit in HABITS
    for how in HOW
    if (how == "limit") <= (habit == BUSY) and (habit, how) != (BUSY, "closed")
]


@pytest.mark.parametrize(("habit", "how"), WAYS)
def test_program_ends_as_without_the_shim(
    habit: str, how: str, program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    env = shim_env(FIKIT_SOCKET=str(daemon(**HOW[how]).path))
    alone = outcome([program, habit], without_shim(env))
    assert outcome([program, habit], env) == alone
    assert alone.stdout or habit in {"_exit", "exit"}


def test_children_of_a_fork_are_processes_of_their_own(
    program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    outcome([program, "fork"], shim_env(FIKIT_SOCKET=str(fikitd.path)))
    assert sorted(page.launches() for page in fikitd.pages) == [3, 4]


@pytest.mark.parametrize("managed", [True, False])
def test_daemon_keeps_its_files_to_itself(
    managed: bool, program: Path, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    """It closed our descriptors, and its standard error is a file of its own: no line of ours gets in there."""
    fikitd = daemon()
    socket = str(fikitd.path) if managed else str(tmp_path / "nobody.sock")
    done = outcome([program, "daemon", tmp_path / "log"], shim_env(FIKIT_SOCKET=socket))
    assert done.returncode == 5
    wait_for(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text(), "daemon that is done")
    assert (tmp_path / "log").read_text() == "daemon done\n"


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that every user can reach, which pytest's own are not."""
    directory = Path(tempfile.mkdtemp(prefix="fikit-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_set_uid_program_runs_without_us(
    cc: Compile, shim: Path, shim_env: Environment, public_directory: Path
) -> None:
    if os.geteuid() != 0 or os.statvfs(public_directory).f_flag & os.ST_NOSUID:
        pytest.skip("needs root, and a place where set-uid counts")
    source = public_directory / "who.c"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\nint main(void) {\n"
        '  char line[4096]; int ours = 0; FILE *maps = fopen("/proc/self/maps", "r");\n'
        '  while (maps && fgets(line, sizeof line, maps)) ours |= strstr(line, "fikit_shim") != 0;\n'
        '  printf("%d %d %d\\n", (int)getuid(), (int)geteuid(), ours);\n  return 0;\n}\n'
    )
    program, library = public_directory / "who", public_directory / shim.name
    shutil.copy(cc(source), program)
    shutil.copy(shim, library)
    env = shim_env(LD_PRELOAD=str(library))
    program.chmod(0o755)
    assert outcome([program], env, user=65534).stdout == "65534 65534 1\n"
    program.chmod(0o4755)
    done = outcome([program], env, user=65534)
    assert (done.returncode, done.stdout, done.stderr) == (0, "65534 0 0\n", "")
