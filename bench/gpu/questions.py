"""Call 1's questions to a GPU machine and to NVIDIA's MPS: none of them can hang a GPU, and all take 20 s at most.

An answer is a fact, whatever it is. The questions that may hang a GPU are in bench/gpu/second.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.gpu import asking, mps, processes
from bench.gpu.asking import Asking
from bench.gpu.context import Context, Found
from bench.record import BenchError

MOST_S = 4.0  # of a question
BIG_GIB, SMALL_GIB = 40, 0.1
WAVES = 264 * 20  # blocks of a kernel of many waves, on an H200's 132 multiprocessors with two blocks each
WAVE_NS, LONE_NS, LONE_S = 100_000, 20_000, 0.4
PROGRAMS = ("nvidia-smi", mps.COMMAND, "nvidia-cuda-mps-server", "setpriv", "unshare", "cc", "cmake", "ninja", "munged")
SMI = (
    "driver_version,name,uuid,compute_mode,persistence_mode,mig.mode.current,power.limit,clocks.max.sm,ecc.mode.current"
)
IN_PRIVATE_SHM = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh")


def questions(context: Context) -> Found:
    """The part: {question: {"answer" or "error", "took_s"}}."""
    asked = Asking(context)
    asked.ask("machine", MOST_S, lambda: machine(asked))
    asked.ask("nvidia-smi", MOST_S, lambda: smi(asked))
    server = Server(asked)
    try:
        for name, question in server.questions().items():
            asked.ask(name, server.most_s(name), question)
    finally:
        server.end()
    return asked.found


def machine(asked: Asking) -> Found:
    """Facts of the machine that need no GPU."""
    context = asked.context
    paths = {name: shutil.which(name) for name in PROGRAMS}
    with suppress(BenchError):
        paths[f"{mps.COMMAND} beside the driver"] = mps.command_path(context.library)
    shm = shutil.disk_usage("/dev/shm")
    status = Path("/proc/self/status").read_text()
    return {
        "driver": context.gpu.get("driver"), "compute_mode": context.gpu.get("compute_mode"), "programs": paths,
        "uid": os.geteuid(), "capabilities": [line for line in status.splitlines() if line.startswith(("CapEff", "CapBnd"))],
        "shm": {"mode": oct(Path("/dev/shm").stat().st_mode), "bytes": shm.total, "free": shm.free},
        "devices": sorted(f"{oct(path.stat().st_mode)} {path}" for path in Path("/dev").glob("nvidia*")),
        "os": _os_release(), "kernel": platform.release(), "libc": " ".join(platform.libc_ver()),
        "cores": os.cpu_count(), "affinity": len(os.sched_getaffinity(0)),
    }  # fmt: skip


def _os_release() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def smi(asked: Asking) -> Found:
    """nvidia-smi's own words of the first GPU."""
    place = asked.context.place
    command = ["nvidia-smi", f"--query-gpu={SMI}", "--format=csv,noheader", "-i", "0"]
    words = processes.run("nvidia-smi", command, place.env, place.directory, asked.left(MOST_S)).strip()
    values = [word.strip() for word in words.split(",")]
    if len(values) != len(SMI.split(",")):
        raise BenchError(f"nvidia-smi said {words[:200]!r}: {len(values)} values instead of {len(SMI.split(','))}")
    return dict(zip(SMI.split(","), values, strict=True))


class Server:
    """Questions to one control daemon, and to the server that it starts."""

    def __init__(self, asked: Asking) -> None:
        self._asked = asked
        self._daemon: mps.Daemon | None = None
        self._server = 0

    def questions(self) -> dict[str, Callable[[], Found]]:
        """In their order: the first one starts the daemon."""
        return {
            "server begins": self.begins,
            "markers of a client": lambda: self._run("marks"),
            "client of another user": self.other_user,
            "client with a private /dev/shm": lambda: self._run("join", wrap=IN_PRIVATE_SHM),
            "files of a client": self.files,
            "client priority beside many waves": self.priority,
            "a waiting stream beside lone kernels": self.waiting_stream,
            "pipe directory changed late": self.late,
            "GPU by UUID": self.by_uuid,
            "listed after the end": self.listed,
        }

    @staticmethod
    def most_s(name: str) -> float:
        """A question's limit in seconds: the server's start may take longer."""
        return 8.0 if name == "server begins" else MOST_S

    def end(self) -> None:
        if self._daemon is not None:
            self._daemon.end(2.0)

    def _running(self) -> mps.Daemon:
        if self._daemon is None or not self._server:
            raise BenchError("there is no MPS server")
        return self._daemon

    def _run(self, *words: object, wrap: tuple[str, ...] = (), **env: str) -> Found:
        return self._asked.run(*words, env={**self._running().env, **env}, wrap=wrap)

    def begins(self) -> Found:
        """With -multiuser-server, as fikitd starts it as root; without it where the driver does not know the flag."""
        asked = self._asked
        found: Found = {"knows_multiuser": asking.knows_multiuser(asked.context)}
        flags = ["-multiuser-server"] if os.geteuid() == 0 else []
        self._daemon = asked.daemon("asked", flags)
        found["with_flag" if flags else "without_flag"] = answer = asked.begin_server(self._daemon, 4)
        if flags and not answer["server"]:
            self._daemon.end(1.0)
            self._daemon = asked.daemon("asked-plain")
            found["without_flag"] = answer = asked.begin_server(self._daemon, 4)
        self._server = answer["server"]
        if not self._server:
            return {"error": f"no MPS server began: {' / '.join(answer['tail']) or answer['start_server']}", **found}
        pipe = self._daemon.pipe
        found["pipe"] = sorted(f"{oct(p.stat().st_mode)} {p.stat().st_uid} {p.name}" for p in (pipe, *pipe.iterdir()))
        return found

    def other_user(self) -> Found:
        daemon = self._running()
        closed = self._run("join", wrap=asking.NOBODY)
        daemon.pipe.chmod(0o1777)
        return {"0755": closed, "1777": self._run("join", wrap=asking.NOBODY)}

    def files(self) -> Found:
        """New names in /dev/shm and in the pipe directory while a client is there."""
        daemon = self._running()
        before = _names(daemon)
        client = self._asked.begin("stay", env=daemon.env)
        first = client.line(self._asked.deadline(MOST_S))
        return {"client": first, "new": sorted(_names(daemon) - before)}

    def priority(self) -> Found:
        """Lone kernels of 20 us beside kernels of many waves of blocks, of a client of each level."""
        levels = {"0": {"CUDA_MPS_CLIENT_PRIORITY": "0"}, "1": mps.BELOW_NORMAL, "half": mps.HALF}
        found: Found = {"alone": self._run("lone", LONE_NS, LONE_S)}
        for level, env in levels.items():
            other = self._asked.begin("spin", WAVE_NS, WAVES, 4, env={**self._running().env, **env})
            other.line(self._asked.deadline(MOST_S))
            found[f"other at {level}"] = self._run("lone", LONE_NS, LONE_S)
            other.leave(self._asked.deadline(1))
        return found

    def waiting_stream(self) -> Found:
        """Whether a stream that waits for a word of the host's stops the other clients."""
        other = self._asked.begin("hold_value", env=self._running().env)
        other.line(self._asked.deadline(MOST_S))
        return {"held": other.line(self._asked.deadline(1)), "beside": self._run("lone", LONE_NS, LONE_S)}

    def late(self) -> Found:
        """When the driver reads CUDA_MPS_PIPE_DIRECTORY: `mps` of a client that changes the variable at that moment."""
        nowhere = str(self._asked.context.place.directory / "nowhere")
        return {"before cuInit": self._run("late_env", nowhere), "after cuInit": self._run("late_env_ctx", nowhere)}

    def by_uuid(self) -> Found:
        names = self._asked.context.gpu["uuid"], "0"
        return {name: self._run("join", CUDA_VISIBLE_DEVICES=name) for name in names}

    def listed(self) -> Found:
        """Seconds that a client of little and of much memory takes to end, and stays listed afterwards."""
        daemon, asked = self._running(), self._asked
        found: Found = {}
        for gib in (SMALL_GIB, BIG_GIB):
            client = asked.begin("alloc", gib, env=daemon.env)
            client.line(asked.deadline(MOST_S))
            code = client.line(asked.deadline(MOST_S))["alloc"]
            exit_s = client.leave(asked.deadline(MOST_S))
            begin = time.monotonic()
            while str(client.pid) in daemon.ask(f"get_client_list {self._server}", asked.left(2)).split():
                if time.monotonic() > asked.until:
                    raise BenchError(
                        f"a client of {gib} GiB is still listed {time.monotonic() - begin:.1f} s after its end"
                    )
                time.sleep(0.01)
            found[f"{gib} GiB"] = {
                "alloc": code,
                "exit_s": round(exit_s, 3),
                "listed_s": round(time.monotonic() - begin, 3),
            }
        return found


def _names(daemon: mps.Daemon) -> set[str]:
    return {str(path) for directory in (Path("/dev/shm"), daemon.pipe) for path in directory.iterdir()}
