"""A real fikitd and real CUDA processes on the emulated GPU, for the daemon's device tests."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fikitd.api.client import Control, DaemonUnreachable, wait_until_there
from fikitd.api.reports import ReportStore
from fikitd.store.records import JobRecord

from fikitd import paths

SOURCE = Path(__file__).resolve().parents[1] / "programs/daemon/daemon_client.c"


def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value of `condition`, asked again and again for at most `seconds`: a busy machine takes ten to start a fikitd."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
    return value


_STARTED: list[subprocess.Popen[str]] = []  # by runners, in the test that runs


def end_programs() -> None:
    """Those that runners have started, with their pipes: what a failed test leaves open is a warning in a later one."""
    while _STARTED:
        with _STARTED.pop() as process:
            if process.poll() is None:
                process.kill()


class Fikitd:
    """The daemon as a process, with directories of its own."""

    def __init__(self, root: Path, policy: str = "paper") -> None:
        self.root = root
        self.run_dir, self.reports, self.profiles = root / "run", root / "reports", root / "profiles"
        self.config = root / "fikit.toml"
        self.config.write_text(
            f'[daemon]\nrun_dir = "{self.run_dir}"\nreport_dir = "{self.reports}"\nprofile_dir = "{self.profiles}"\n'
            f'[scheduler]\npolicy = "{policy}"\n'
        )
        self.control = Control(self.run_dir)
        self.log = root / "fikitd.log"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).with_name("fikitd")), "--config", str(self.config), *arguments]

    def start(self, env: Mapping[str, str] | None = None) -> Fikitd:
        """With `env` besides the environment of the tests."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stderr=log, cwd="/", env={**os.environ, **(env or {})})
        self.wait_until_there()
        return self

    @contextmanager
    def started(self, env: Mapping[str, str]) -> Iterator[None]:
        """At work meanwhile, with `env`; it ends as told, and nothing that it did was a fault of its own."""
        self.start(env)
        yield
        assert self.stop() == 0, self.log.read_text()
        assert "Traceback" not in self.log.read_text()

    def wait_until_there(self) -> None:
        assert self.process is not None
        try:
            wait_until_there(self.run_dir, self.process, 60.0)
        except DaemonUnreachable as error:
            raise AssertionError(f"{error}: {self.log.read_text()}") from error

    def stop(self) -> int:
        """Exit code after SIGTERM."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20)

    def report(self, job: str) -> dict[str, Any]:
        report = ReportStore(self.reports).load(job)
        assert report is not None, self.log.read_text()
        return report


class Runner:
    """Starts programs as jobs of a daemon, as the SPANK plugin or `fikit run` would."""

    def __init__(
        self, daemon: Fikitd, client: Path, shim: Path, env: dict[str, str], numbers: Iterator[int] | None = None
    ) -> None:
        """`numbers`: the jobs' ids; default: from 1."""
        self.daemon = daemon
        self.client = client
        self.env = {**env, "LD_PRELOAD": str(shim), "FIKIT_SOCKET": str(daemon.run_dir / "fikitd.sock")}
        self._numbers = numbers or itertools.count(1)

    def start(self, *arguments: object, uid: int | None = None, **facts: Any) -> tuple[str, subprocess.Popen[str]]:
        """A job with one process: `client arguments...`. Returns its id and the process, which runs when this returns."""
        job = str(next(self._numbers))
        # The shell waits until its record exists, then becomes the program under the same pid.
        wait = ["/bin/sh", "-c", 'read go && exec "$@"', "sh", str(self.client), *map(str, arguments)]
        me = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        process = subprocess.Popen(
            wait, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **me
        )  # type: ignore[call-overload]
        _STARTED.append(process)
        user = os.getuid() if uid is None else uid
        record = JobRecord(**{"job": job, "uid": user, "gid": user, "priority": 1, "pid": process.pid, **facts})
        record.write(self.daemon.run_dir)
        process.stdin.write("go\n")
        process.stdin.flush()
        return job, process

    def run(self, *arguments: object, **facts: Any) -> tuple[str, str, str]:
        """Run a job to its end: (id, its standard error, its summary line). The program must succeed."""
        job, process = self.start(*arguments, **facts)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out.startswith("done")
        summary = self.daemon.control.summary(job)
        self.end(job)
        return job, err, summary

    def end(self, job: str) -> None:
        self.daemon.control.end(job)
        (self.daemon.run_dir / "jobs" / job).unlink()


def usual_daemon(tmp_path: Path) -> Iterator[Fikitd]:
    """For a file's fixture `daemon`: it ends well when the test is over."""
    daemon = Fikitd(tmp_path).start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


def client_runner(daemon: Fikitd, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]) -> Runner:
    """For a file's fixture `runner`: its programs are `SOURCE` on an emulated GPU of the test's own."""
    return Runner(daemon, cc(SOURCE), paths.shim(), emulator_env())


def heard(process: subprocess.Popen[str]) -> str:
    """The next line of a program that a runner has started. It must say one: what it says instead, as it ends, is in the failure."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return line.rstrip("\n")


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def let_others_in(directory: Path) -> None:
    """pytest's directories are private; another user's process must reach what is below."""
    for parent in (directory, *directory.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)


def mount(where: Path, options: str) -> None:
    where.mkdir(exist_ok=True)
    subprocess.run([shutil.which("mount") or "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)], check=True)


def unmount(where: Path) -> None:
    subprocess.run([shutil.which("umount") or "umount", str(where)], check=True)
