#!/usr/bin/env -S python3 -IS
"""nvidia-cuda-mps-control for the emulated GPU: control daemon, its servers, and the command that speaks with it.

Written from NVIDIA's documentation (nvidia-cuda-mps-control(1); "Multi-Process Service", docs.nvidia.com/deploy/mps) and compared, answer by
answer, with the control daemons of drivers 535 and 550 where no GPU is needed (tests/device/mps/test_mps_real.py). The daemon and a real
client speak an undocumented protocol. The emulated driver joins a server by the file `emulated_server` of the pipe directory,
"PID START_TIME MAX_CLIENTS", and leaves `emulated_clients/client.PID` there while it lives. A server that starts holds the file's lock.

Environment: CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY and CUDA_VISIBLE_DEVICES as NVIDIA's; EMUCUDA_MPS_CLIENTS: how many clients a
server takes (48); EMUCUDA_MPS_DRIVER: whose daemon this is, `535`, `550` or `multi-user` (the default: 550's, and it knows
-multiuser-server). Faults: lines of EMUCUDA_MPS_FAULTS (separated by `;`) and, read anew for each command, of the file `emulated_faults` in
the log directory:
    hang WORD       the daemon never answers that command (`start`: it never opens its socket; `*`: whatever is asked)
    refuse WORD     it answers with an error (`start`: it does not start)
    die WORD        it ends instead of answering; its servers live on
    late SECONDS    a server needs so long until it is ready (0.02)
    stillborn       a server ends instead of becoming ready
    linger          servers keep clients that are gone until terminate_client names them
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

DRIVERS = ("535", "550", "multi-user")
HELP = "CUDA MPS Control for the emulated GPU.\n"
LATE_S = 0.02
SERVER_NAME = b"nvidia-cuda-mps-s"  # the kernel keeps 15 bytes of a process's name
NO_DAEMON = "Cannot find MPS control daemon process"
MOST_BYTES = 4096
PR_SET_NAME = 15


def start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat; 0 when there is no such process, or nobody but its parent has noticed its end."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


class Places:
    """The directories that the environment names."""

    def __init__(self) -> None:
        self.pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")
        self.log = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY") or "/var/log/nvidia-mps")
        self.control = self.pipe / "control"
        self.pid = self.pipe / "nvidia-cuda-mps-control.pid"
        self.server = self.pipe / "emulated_server"
        self.clients = self.pipe / "emulated_clients"
        self.faults = self.log / "emulated_faults"


class Faults:
    """What is to go wrong."""

    def __init__(self, places: Places) -> None:
        self._file = places.faults

    def lines(self) -> list[list[str]]:
        text = os.environ.get("EMUCUDA_MPS_FAULTS", "").replace(";", "\n")
        with contextlib.suppress(OSError):
            text += "\n" + self._file.read_text()
        return [line.split() for line in text.splitlines() if line.strip()]

    def strike(self, kind: str, word: str) -> bool:
        return any(line[0] == kind and line[1:] and line[1] in (word, "*") for line in self.lines())

    def has(self, word: str) -> bool:
        return [word] in self.lines()

    @property
    def late_s(self) -> float:
        return [LATE_S, *(float(line[1]) for line in self.lines() if line[0] == "late")][-1]


class Refusal(Exception):
    """The answer to a command that cannot be done."""


class Daemon:
    def __init__(self, places: Places, driver: str, multi_user: bool) -> None:
        self.places, self.driver, self.multi_user = places, driver, multi_user
        self.faults = Faults(places)
        self.servers: dict[int, int] = {}  # pid -> uid
        self.starting: dict[int, int] = {}  # pid -> a descriptor that tells when it is ready
        self.queue: list[int] = []  # uids whose server comes when the one that is there has no clients
        self.seen: dict[int, set[int]] = {}  # clients of each server that are or were there
        self.over_s: float | None = None  # by when servers with clients are ended
        self.quitting: socket.socket | None = None  # hears of the end
        self.percentage, self.priority = "100.0", "0"
        self.lock = -1

    # ------------------------------------------------------------------ lifecycle

    def run(self) -> int:
        """Until `quit`. File modes as NVIDIA's daemon sets them: a directory that it finds keeps its own."""
        places = self.places
        places.log.mkdir(mode=0o700, exist_ok=True)
        before = os.umask(0)
        places.pipe.mkdir(mode=0o777, exist_ok=True)
        places.clients.mkdir(mode=0o1777, exist_ok=True)
        places.clients.chmod(0o1777)
        self.lock = os.open(places.pipe / "control_lock", os.O_WRONLY | os.O_CREAT, 0o666)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(places.pipe / "log", 0o777)
        if self.driver != "535":
            places.pid.write_text(f"{os.getpid()}\n")
        os.umask(before)
        note("Control", f"Starting control daemon using socket {places.control}")
        if self.faults.strike("refuse", "start"):
            note("Control", "Control daemon could not start")
            return 1
        if self.faults.strike("hang", "start"):
            hang()
        privileged, listener = (listen(place) for place in (places.pipe / "control_privileged", places.control))
        places.control.chmod(0o666)
        # Nobody else's sleep is as long: children and lingering clients are looked after in between.
        listener.settimeout(0.02)
        signal.signal(signal.SIGTERM, self._on_term)
        while self.over_s is None or (self._busy() and time.monotonic() < self.over_s):
            self._look_after()
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            if not self._serve(connection):
                connection.close()
        self._end_servers()
        for file in (places.pid, places.pipe / "log"):
            file.unlink(missing_ok=True)
        note("Control", "Exit with status 0")
        privileged.close()
        if self.quitting is not None:
            self.quitting.close()
        return 0

    def _busy(self) -> bool:
        return any(self._clients(server) for server in self.servers)

    def _on_term(self, _number: int, _frame: object) -> None:
        self.over_s = 0.0

    def _serve(self, connection: socket.socket) -> bool:
        """Answer one command. Whether the connection stays, until this daemon's end."""
        try:
            connection.settimeout(5)
            line = connection.makefile().readline(MOST_BYTES)
            if not line:
                return False
            command = line.split() or [""]
            note("Control", f"Cmd:{line.strip()}")
            for kind in ("hang", "die", "refuse"):
                if self.faults.strike(kind, command[0]):
                    if kind == "refuse":
                        raise Refusal("Failed")
                    hang() if kind == "hang" else os._exit(1)
            answer = self._do(command)
        except Refusal as refusal:
            answer = str(refusal)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            connection.sendall(f"{answer}\n".encode() if answer else b"")
        if self.over_s is not None and self.quitting is None:
            self.quitting = connection
            return True
        return False

    def _look_after(self) -> None:
        while self.servers:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._forget(pid)
        for server in list(self.servers):
            self.seen[server] |= set(self._clients_there())
            if self.queue and self._ready(server) and not self._clients(server):
                self._end_server(server)
        if self.queue and not self.servers and self.over_s is None:
            self._begin(self.queue.pop(0))

    def _forget(self, server: int) -> None:
        note("Control", f"Server {server} exited")
        self.servers.pop(server, None)
        self.seen.pop(server, None)
        if (descriptor := self.starting.pop(server, -1)) >= 0:
            os.close(descriptor)

    # ------------------------------------------------------------------ commands

    def _do(self, command: list[str]) -> str:
        known = {
            "start_server": self._start_server, "get_server_list": self._server_list,
            "get_server_status": self._server_status, "get_client_list": self._client_list,
            "terminate_client": self._terminate_client, "shutdown_server": self._shutdown_server, "quit": self._quit,
            "get_default_active_thread_percentage": lambda _: self.percentage,
            "set_default_active_thread_percentage": self._set_percentage,
            "get_default_client_priority": lambda _: self.priority,
            "set_default_client_priority": self._set_priority,
        }  # fmt: skip
        if self.driver == "535":
            del known["get_server_status"]
        word, *operands = command
        if word not in known:
            raise Refusal(f'Unknown command "{word}"')
        return known[word](operands)

    def _set_percentage(self, operands: list[str]) -> str:
        with contextlib.suppress(ValueError):
            if operands and 0 < float(operands[0]) <= 100:
                self.percentage = f"{float(operands[0]):.1f}"
        return self.percentage

    def _set_priority(self, operands: list[str]) -> str:
        if operands and operands[0].isdigit():
            if operands[0] not in {"0", "1"}:
                raise Refusal("Invalid priority value - must be 0 or 1!")
            self.priority = operands[0]
        return ""

    def _start_server(self, operands: list[str]) -> str:
        """The answer comes before the server is ready, or whether it will be."""
        if len(operands) < 2 or operands[0] != "-uid" or not operands[1].isdigit():
            raise Refusal("A user id (UID) is required to start a new server")
        uid = 0 if self.multi_user else int(operands[1])
        if not self.servers:
            self._begin(uid)
        elif uid not in self.servers.values():
            self.queue.append(uid)
        return ""

    def _begin(self, uid: int) -> None:
        """The server's process has the lock of `emulated_server` until it is ready: clients wait for it meanwhile."""
        told, tell = os.pipe()
        new = self.places.server.with_suffix(".new")
        with new.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            pid = os.fork()
            if pid == 0:
                serve(uid, (tell, file.fileno()), self.faults.late_s, self.faults.has("stillborn"))
            os.close(tell)
            file.write(f"{pid} {start_time(pid)} {os.environ.get('EMUCUDA_MPS_CLIENTS', '48')}\n")
        new.rename(self.places.server)
        self.servers[pid], self.starting[pid], self.seen[pid] = uid, told, set()
        note("Control", f"Starting new server {pid} for user {uid}")

    def _ready(self, server: int) -> bool:
        if (descriptor := self.starting.get(server)) is not None:
            if not select.select([descriptor], [], [], 0)[0] or not os.read(descriptor, 1):
                return False
            os.close(self.starting.pop(server))
        return True

    def _server(self, operands: list[str]) -> int:
        pid = int(operands[0]) if operands and operands[0].isdigit() else 0
        if pid not in self.servers:
            raise Refusal(f"Server {pid} not found")
        return pid

    def _server_list(self, _operands: list[str]) -> str:
        return "\n".join(map(str, self.servers))

    def _server_status(self, operands: list[str]) -> str:
        if not operands or not operands[0].isdigit():
            raise Refusal("A server PID is required")
        if not self._ready(self._server(operands)):
            return "INITIALIZING"
        return "FAULT" if any(device.get("mps_fault") for device in self._devices()) else "ACTIVE"

    def _client_list(self, operands: list[str]) -> str:
        return "\n".join(map(str, self._clients(self._server(operands))))

    def _clients(self, server: int) -> list[int]:
        there = set(self._clients_there())
        return sorted(there | (self.seen[server] if self.faults.has("linger") else set()))

    def _clients_there(self) -> dict[int, str]:
        found = {}
        for file in self.places.clients.glob("client.*"):
            try:
                pid, start, *rest = file.read_text().split()
            except (OSError, ValueError):
                continue
            if pid.isdigit() and start.isdigit() and start_time(int(pid)) == int(start) != 0:
                found[int(pid)] = " ".join(rest)
        return found

    def _terminate_client(self, operands: list[str]) -> str:
        try:
            server = self._server(operands)
        except Refusal as refusal:
            raise Refusal(f"{refusal}\n{refusal}!\n1") from None
        if not self._ready(server):
            raise Refusal(f"Server {server} not found!\n1")
        if len(operands) != 2 or not operands[1].isdigit() or int(operands[1]) not in self._clients(server):
            raise Refusal(f"Client {' '.join(operands[1:])} not found")
        client = int(operands[1])
        self.seen[server].discard(client)
        if client in self._clients_there():
            done = subprocess.run([emuctl(), "terminate", str(client)], check=False, capture_output=True, timeout=10)
            if done.returncode:
                raise Refusal(f"Failed to terminate client {client}")
        note("Control", f"Client {client} of server {server} is terminated")
        return ""

    def _shutdown_server(self, operands: list[str]) -> str:
        server = self._server(operands)
        if "-f" in operands or not self._clients(server):
            self._end_server(server)
        return ""

    def _quit(self, operands: list[str]) -> str:
        """The daemon waits for clients, without a bound or for so long; the command waits for the daemon."""
        bound = float(operands[1]) if operands[:1] == ["-t"] and len(operands) == 2 else float("inf")
        self.over_s = time.monotonic() + bound
        return ""

    # ------------------------------------------------------------------ servers

    def _end_servers(self) -> None:
        for server in list(self.servers):
            self._end_server(server)

    def _end_server(self, server: int) -> None:
        self.places.server.unlink(missing_ok=True)
        try:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        self._forget(server)

    def _devices(self) -> list[dict[str, object]]:
        """What emuctl says of the emulated GPUs that the daemon may see."""
        import json  # noqa: PLC0415 - the command that only asks does without

        done = subprocess.run([emuctl(), "stats", "--json"], check=False, capture_output=True, text=True, timeout=10)
        try:
            devices = json.loads(done.stdout)["devices"]
        except (ValueError, KeyError):
            return []
        wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return [device for device in devices if not wanted or str(device.get("uuid")).startswith(wanted)]


def listen(place: Path) -> socket.socket:
    place.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(place))
    listener.listen(16)
    return listener


def note(who: str, line: str) -> None:
    """In the log: standard output of `-f`, `control.log` of `-d`."""
    now = time.time()
    stamp = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03}"
    with contextlib.suppress(OSError):
        print(f"[{stamp} {who} {os.getpid():>5}] {line}", flush=True)


def serve(uid: int, kept: tuple[int, int], late_s: float, stillborn: bool) -> None:
    """A server's process: it is there. Where the real one has the GPU, the emulated driver has all that it would do.

    `kept`: what tells the daemon that it is ready, and the lock for which clients wait until then.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for descriptor in set(range(3, 256)) - set(kept):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    import ctypes  # noqa: PLC0415 - what only asks does without

    ctypes.CDLL(None).prctl(PR_SET_NAME, SERVER_NAME[:15], 0, 0, 0)
    os.setsid()
    if uid and os.geteuid() == 0:
        os.setgid(uid)
        os.setuid(uid)
    time.sleep(late_s)
    if stillborn:
        os._exit(1)
    tell, lock = kept
    os.write(tell, b".")
    for descriptor in (tell, lock):
        os.close(descriptor)
    while True:
        signal.pause()


def hang() -> None:
    while True:
        time.sleep(3600)


def emuctl() -> str:
    """Beside the emulated driver's directory, in which this file lies."""
    return os.fspath(Path(__file__).resolve().parent.parent / "bin" / "emuctl")


# ---------------------------------------------------------------------- the command


def ask(places: Places, command: str | None) -> str | None:
    """The daemon's answer to one command, and of `quit` its end; None: there is no daemon. Without a command: whether there is one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.fspath(places.control))
            connection.sendall(b"" if command is None else f"{command}\n".encode())
            connection.shutdown(socket.SHUT_WR)
            return connection.makefile().read()
        except OSError:
            return None


def interact(places: Places) -> int:
    """Commands from standard input, one a line, as `echo quit | nvidia-cuda-mps-control` gives them."""
    if ask(places, None) is None:
        print(NO_DAEMON, file=sys.stderr)
        return 1
    for line in sys.stdin:
        answer = ask(places, line.strip())
        if answer is None:
            return 1
        print(answer, end="", flush=True)
        if line.split()[:1] == ["quit"]:
            return 0
    return 0


def daemonise(places: Places) -> None:
    """The parent ends once the daemon listens."""
    if os.fork():
        deadline = time.monotonic() + 10
        while ask(places, None) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    places.log.mkdir(mode=0o700, exist_ok=True)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(places.log / "control.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor, kept in ((0, null), (1, log), (2, null)):
        os.dup2(kept, descriptor)


def main(arguments: list[str]) -> int:
    """NVIDIA's takes whatever it does not know for the front end's, which then finds no daemon."""
    places, flags = Places(), set(arguments)
    driver = os.environ.get("EMUCUDA_MPS_DRIVER", "multi-user")
    if driver not in DRIVERS:
        print(
            f"emucuda: couldn't be EMUCUDA_MPS_DRIVER={driver}: it must be one of {', '.join(DRIVERS)}", file=sys.stderr
        )
        return 1
    several = {"-multiuser-server", "-M"} if driver == "multi-user" else set()
    if flags & {"-h", "--help"}:
        print(HELP)
        return 0
    if not flags & {"-d", "-f"} or flags - {"-d", "-f"} - several:
        return interact(places)
    if ask(places, None) is not None:
        print("An instance of this daemon is already running")
        return 1
    if "-d" in flags:
        daemonise(places)
    return Daemon(places, driver, bool(flags & several)).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
