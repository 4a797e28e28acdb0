"""Programs in user, pid, mount and network namespaces, as container programs make them, of a job of root's fikitd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner
from other_user import UID, OtherUser

pytest_plugins = ["other_user_fixtures"]

SUBORDINATE = 300_000  # a uid that /etc/subuid would give to the user


@pytest.fixture
def daemon(user: OtherUser) -> Iterator[Fikitd]:
    daemon = Fikitd(user.directory).start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def spin(cc: Callable[..., Path], user: OtherUser) -> Path:
    program = user.directory / "spin"
    program.write_bytes(cc(SOURCE).read_bytes())
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    "namespaces",
    [
        "--user",  # no mapping at all: the program takes itself for uid 65534
        "--user --map-root-user",  # rootless podman, apptainer with fakeroot
        "--user --map-current-user --mount --net --ipc --uts",
        "--user --map-root-user --pid --fork --mount-proc",  # it has another pid than fikitd sees
        "--user --map-root-user --mount sh -c 'mount -t tmpfs none /proc; exec \"$@\"' sh",
    ],
    ids=["unmapped", "root", "containing", "pids", "no proc"],
)
def test_program_in_namespaces_of_its_own_is_managed_as_its_jobs(
    daemon: Fikitd, user: OtherUser, spin: Path, namespaces: str
) -> None:
    runner = Runner(daemon, Path("/bin/sh"), user.shim, dict(user.env))
    job, process = runner.start("-c", f'exec unshare {namespaces} "$@"', "sh", spin, 20, 100_000, uid=UID)
    assert (process.communicate(timeout=60), process.returncode) == (("done 20\n", ""), 0)
    assert " 20 kernels" in daemon.control.summary(job)


@pytest.mark.parametrize(
    "namespaces",
    ["--user", "--user --map-root-user", "--user --map-root-user --pid --fork --mount-proc"],
    ids=["unmapped", "root", "as the first process"],
)
def test_fikit_run_works_in_a_container(user: OtherUser, spin: Path, namespaces: str) -> None:
    """With fikitd inside, too. In a pid namespace of its own `fikit run` has pid 1."""
    places = {"XDG_RUNTIME_DIR": str(user.home), "XDG_STATE_HOME": str(user.home / "state")}
    run = f"fikit run --priority high -- {spin} 20 100000"
    done = user.run("sh", "-c", f"exec unshare {namespaces} {run}", **places)
    assert (done.returncode, done.stdout) == (0, "done 20\n"), done.stderr
    assert done.stderr.count("\n") == 1
    assert " high: 20 kernels" in done.stderr


IN_A_NAMESPACE = """
import ctypes, os, sys
if ctypes.CDLL(None).unshare(0x10000000) != 0:  # CLONE_NEWUSER
    sys.exit("no user namespaces here")
print("ready", flush=True)
sys.stdin.readline()
os.setresgid(0, 0, 0); os.setresuid(0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_program_under_a_subordinate_uid_is_none_of_its_jobs_and_runs_with_one_line(
    daemon: Fikitd, user: OtherUser, spin: Path
) -> None:
    """As a container's other users are: the kernel says a uid that is not the job's."""
    runner = Runner(daemon, user.bin / "python", user.shim, dict(user.env))
    job, process = runner.start("-c", IN_A_NAMESPACE, spin, 20, 100_000, uid=UID)
    assert process.stdout is not None
    assert process.stdin is not None
    if process.stdout.readline() != "ready\n":
        pytest.skip("no user namespaces here")
    for file in ("gid_map", "uid_map"):
        Path(f"/proc/{process.pid}/{file}").write_text(f"0 {SUBORDINATE} 10\n")
    process.stdin.write("\n")
    process.stdin.flush()
    out, err = process.stdout.read(), process.stderr.read() if process.stderr else ""
    assert (process.wait(60), out) == (0, "done 20\n")
    assert err.count("\n") == 1
    assert f"runs as uid {SUBORDINATE} but its job {job} is uid {UID}'s): it runs without priorities" in err
