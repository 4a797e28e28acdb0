"""What users without a job cost others by connecting to fikitd without end: prolog, epilog and the first launch of a new program, beside
processes of four users that connect in a loop to both sockets, against the same number that only spin. In turns, on one fikitd.

`prolog`: a job's record is written and fikitd answers; `epilog`: fikitd is told that the job is over, and the record goes; as the
plugin does it. `launch`: from the start of a program to the end of its only launch. Needs root, to be other users."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fikitd.api.client import Control, DaemonUnreachable, wait_until_there
from fikitd.store.records import JobRecord

from bench.record import BenchError, Result
from fikitd import paths

ABOUT = "users who connect to fikitd without end: what prolog, epilog and first launch take meanwhile"
ROUNDS = 8
USERS = (60001, 60002, 60003, 60004)
SOCKETS = ("fikitd.sock", "control.sock")
TIMES = 5  # of each in a round
SETTLE_S = 1.0
PATIENCE_S = 60.0
# Prints one line once it has begun. Without a path it spins.
PROCESS = """
import os, socket, sys
os.setgroups([]); os.setresgid(*[int(sys.argv[1])] * 3); os.setresuid(*[int(sys.argv[1])] * 3)
print(flush=True)
path = sys.argv[2]
while not path:
    pass
while True:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as s:
        try:
            s.connect(path)
        except OSError:
            pass
"""
WORK = ("1", "1", "1", "1000", "0", "0")  # of fikit-measure-bench: one launch
NOT_MANAGED, MANAGED_LATER = "does not manage this program", "manages this program from now on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of both, in turns (default {ROUNDS})")


def run(*, emulated: bool, rounds: int = ROUNDS) -> Result:
    """Measure; raises BenchError when fikitd does not start or a program fails."""
    if not emulated:
        raise BenchError("it is not about the GPU, leave --real away")
    if os.geteuid() != 0:
        raise BenchError("other users' processes need root")
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="fikit-storm-") as name, _site(Path(name)) as site:
        site.round()  # the first of all loads what later ones find loaded
        for _ in range(rounds):
            for arm, sockets in (("spinning", ("", "")), ("storm", SOCKETS)):
                with site.beside(sockets):
                    for what, taken in site.round().items():
                        samples.setdefault(f"{arm}_{what}_ms", []).extend(taken)
        lines, seconds = site.log_lines(), site.stormed_s
        unmanaged = site.unmanaged
    return _result(samples, lines / seconds, unmanaged)


def _result(samples: dict[str, list[float]], lines_per_s: float, unmanaged: int) -> Result:
    values = {"log_lines_per_s": lines_per_s, "unmanaged": float(unmanaged)}
    rows = []
    for what in ("prolog", "epilog", "launch"):
        calm, storm = samples[f"spinning_{what}_ms"], samples[f"storm_{what}_ms"]
        values |= {f"spinning_{what}_ms": statistics.median(calm), f"storm_{what}_ms": statistics.median(storm)}
        rows.append(
            f"  {what:<7}: {statistics.median(calm):7.1f} ms beside spinning processes (most {max(calm):.1f}), "
            f"{statistics.median(storm):7.1f} ms in the storm (most {max(storm):.1f})"
        )
    return Result(
        summary="\n".join(
            [f"{len(USERS) * len(SOCKETS)} processes of {len(USERS)} users without jobs:", *rows,
             f"  programs that stayed unmanaged: {unmanaged}; log: {lines_per_s:.1f} lines/s"]
        ),
        emulated=True, values=values, samples=samples,
    )  # fmt: skip


class _Site:
    def __init__(self, root: Path, control: Control) -> None:
        self.root, self.control = root, control
        self.run_dir = root / "run"
        self.stormed_s = 0.0
        self.unmanaged = 0
        self._jobs = 0
        self._lines = 0

    def log_lines(self) -> int:
        """Written while it was stormed."""
        return self._lines

    @contextmanager
    def beside(self, sockets: tuple[str, ...]) -> Iterator[None]:
        """Processes of each user, one for each of these sockets; "": it spins."""
        begun, lines = time.monotonic(), self._count()
        processes = [
            subprocess.Popen(
                [sys.executable, "-I", "-c", PROCESS, str(uid), str(self.run_dir / name) if name else ""],
                stdout=subprocess.PIPE,
            )
            for uid in USERS
            for name in sockets
        ]
        try:
            for process in processes:
                assert process.stdout
                process.stdout.readline()
            time.sleep(SETTLE_S)
            yield
        finally:
            for process in processes:
                process.kill()
                process.communicate()
            if any(sockets):
                self.stormed_s += time.monotonic() - begun
                self._lines += self._count() - lines

    def round(self) -> dict[str, list[float]]:
        """Milliseconds of each."""
        taken: dict[str, list[float]] = {"prolog": [], "launch": [], "epilog": []}
        for _ in range(TIMES):
            self._jobs += 1
            taken["prolog"].append(_ms(self._prolog))
            taken["launch"].append(_ms(self._launch))
            taken["epilog"].append(_ms(self._epilog))
        return taken

    def _prolog(self) -> None:
        job = str(self._jobs)
        JobRecord(job=job, uid=0, gid=0, priority=1, pid=os.getpid(), gpus="0").write(self.run_dir)
        self.control.ping()

    def _launch(self) -> None:
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("FIKIT_", "LD_", "EMUCUDA_"))},
            "LD_LIBRARY_PATH": str(paths.emulator_dir()), "LD_PRELOAD": str(paths.shim()),
            "FIKIT_SOCKET": str(self.run_dir / "fikitd.sock"), "EMUCUDA_NAME": _device(),
        }  # fmt: skip
        program = paths.native_dir() / "bin" / "fikit-measure-bench"
        done = subprocess.run(
            [program, *WORK], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if done.returncode != 0:
            raise BenchError(f"the program failed: {done.stderr.strip()}")
        self.unmanaged += NOT_MANAGED in done.stderr and MANAGED_LATER not in done.stderr

    def _epilog(self) -> None:
        self.control.end(str(self._jobs))
        (self.run_dir / "jobs" / str(self._jobs)).unlink()

    def _count(self) -> int:
        return (self.root / "fikitd.log").read_text().count("\n")


def _ms(act: Callable[[], None]) -> float:
    begin = time.monotonic()
    act()
    return (time.monotonic() - begin) * 1e3


@contextmanager
def _site(root: Path) -> Iterator[_Site]:
    root.chmod(0o755)
    config = root / "fikit.toml"
    config.write_text(
        f'[daemon]\nrun_dir = "{root}/run"\nreport_dir = "{root}/reports"\nprofile_dir = "{root}/profiles"\n'
        "unmanaged_s = 0\n"
    )
    command = [str(Path(sys.executable).with_name("fikitd")), "--config", str(config)]
    with (root / "fikitd.log").open("ab") as log, subprocess.Popen(command, stderr=log, cwd="/") as daemon:
        try:
            wait_until_there(root / "run", daemon, PATIENCE_S)
            yield _Site(root, Control(root / "run", timeout_s=PATIENCE_S))
        except DaemonUnreachable as error:
            raise BenchError(str(error)) from error
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_S)
            subprocess.run(
                [paths.emuctl(), "reset"],
                env={**os.environ, "EMUCUDA_NAME": _device()},
                capture_output=True,
                check=False,
            )


def _device() -> str:
    """The name of this bench's emulated GPU."""
    return f"storm-{os.getpid()}"
