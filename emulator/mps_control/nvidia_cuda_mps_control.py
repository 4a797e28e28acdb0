#!/usr/bin/env -S python3 -IS
"""nvidia-cuda-mps-control for the emulated GPU: control daemon, its servers, and the command that speaks with it.

Written from NVIDIA's documentation alone (nvidia-cuda-mps-control(1); "Multi-Process Service", docs.nvidia.com/deploy/mps): nobody has
compared it with the real program. What the daemon and a real client say to each other is not documented; the emulated driver joins a
server by the file `emulated_server` of the pipe directory, "PID START_TIME MAX_CLIENTS", and leaves `client.PID` there while it lives.

Environment: CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY and CUDA_VISIBLE_DEVICES as NVIDIA's; EMUCUDA_MPS_CLIENTS: how many clients a
server takes (48). Faults: lines of EMUCUDA_MPS_FAULTS (separated by `;`) and, read anew for each command, of the file `emulated_faults` in
the log directory:
    hang WORD       the daemon never answers that command (`start`: it never opens its socket; `*`: whatever is asked)
    refuse WORD     it answers with an error (`start`: it does not start)
    die WORD        it ends instead of answering; its servers live on
    linger          servers keep clients that are gone until terminate_client names them
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

VERSION = "emulated"
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

    @property
    def linger(self) -> bool:
        return ["linger"] in self.lines()


class Refusal(Exception):
    """The answer to a command that cannot be done."""


class Daemon:
    def __init__(self, places: Places, multi_user: bool) -> None:
        self.places, self.multi_user = places, multi_user
        self.faults = Faults(places)
        self.servers: dict[int, int] = {}  # pid -> uid
        self.seen: dict[int, set[int]] = {}  # clients of each server that are or were there
        self.over = False
        self.defaults = {"active_thread_percentage": "100.0", "client_priority": "0"}

    # ------------------------------------------------------------------ lifecycle

    def run(self) -> int:
        """Until `quit`."""
        places = self.places
        places.pipe.mkdir(mode=0o755, parents=True, exist_ok=True)
        places.log.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._note("Starting control daemon")
        if self.faults.strike("refuse", "start"):
            self._note("Control daemon could not start")
            return 1
        places.control.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        places.pid.write_text(f"{os.getpid()}\n")
        if self.faults.strike("hang", "start"):
            hang()
        listener.bind(os.fspath(places.control))
        places.control.chmod(0o666)
        listener.listen(16)
        # Nobody else's sleep is as long: children and lingering clients are looked after in between.
        listener.settimeout(0.05)
        signal.signal(signal.SIGTERM, self._on_term)
        while not self.over:
            self._look_after()
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                self._serve(connection)
        self._end_servers()
        for file in (places.control, places.pid):
            file.unlink(missing_ok=True)
        self._note("Control daemon ended")
        return 0

    def _on_term(self, _number: int, _frame: object) -> None:
        self.over = True

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(5)
            command = connection.makefile().readline(MOST_BYTES).split()
            if not command:
                return
            self._note(f"command: {' '.join(command)}")
            for kind in ("hang", "die", "refuse"):
                if self.faults.strike(kind, command[0]):
                    if kind == "refuse":
                        raise Refusal("Failed")
                    hang() if kind == "hang" else os._exit(1)
            answer = self._do(command)
        except Refusal as refusal:
            answer = str(refusal)
        except OSError:
            return
        with contextlib.suppress(OSError):
            connection.sendall(f"{answer}\n".encode() if answer else b"")

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

    def _forget(self, server: int) -> None:
        self._note(f"Server {server} ended")
        self.servers.pop(server, None)
        self.seen.pop(server, None)

    # ------------------------------------------------------------------ commands

    def _do(self, command: list[str]) -> str:
        known = {
            "start_server": self._start_server, "get_server_list": self._server_list,
            "get_server_status": self._server_status, "get_client_list": self._client_list,
            "get_device_client_list": self._device_client_list, "ps": self._ps,
            "terminate_client": self._terminate_client, "shutdown_server": self._shutdown_server, "quit": self._quit,
        }  # fmt: skip
        word, *operands = command
        if word in known:
            return known[word](operands)
        for verb in ("get_default_", "set_default_"):
            name = word.removeprefix(verb)
            if word.startswith(verb) and name in self.defaults:
                if verb == "set_default_":
                    if not operands:
                        raise Refusal(f"{word}: an operand is missing")
                    self.defaults[name] = operands[0]
                return self.defaults[name]
        raise Refusal(f"Unrecognized command: {word}")

    def _start_server(self, operands: list[str]) -> str:
        if len(operands) != 2 or operands[0] != "-uid" or not operands[1].isdigit():
            raise Refusal("start_server: use start_server -uid <user id>")
        uid = 0 if self.multi_user else int(operands[1])
        if self.servers:
            if uid in self.servers.values():
                return ""
            raise Refusal("start_server: a server of another user is running")
        pid = os.fork()
        if pid == 0:
            serve(uid)
        self.servers[pid] = uid
        self.seen[pid] = set()
        most = int(os.environ.get("EMUCUDA_MPS_CLIENTS", "48"))
        # Every user's programs leave their names there: what NVIDIA's do through sockets.
        if self.multi_user:
            self.places.pipe.chmod(0o1777)
        with self.places.server.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(f"{pid} {start_time(pid)} {most}\n")
        self._note(f"Server {pid} is ready")
        return ""

    def _server(self, operands: list[str]) -> int:
        pid = int(operands[0]) if operands and operands[0].isdigit() else -1
        if pid not in self.servers:
            raise Refusal(f"Server {' '.join(operands[:1])} not found")
        return pid

    def _server_list(self, _operands: list[str]) -> str:
        return "\n".join(map(str, self.servers))

    def _server_status(self, operands: list[str]) -> str:
        self._server(operands)
        return "FAULT" if any(device.get("mps_fault") for device in self._devices()) else "ACTIVE"

    def _client_list(self, operands: list[str]) -> str:
        return "\n".join(map(str, self._clients(self._server(operands))))

    def _clients(self, server: int) -> list[int]:
        there = set(self._clients_there())
        return sorted(there | (self.seen[server] if self.faults.linger else set()))

    def _clients_there(self) -> dict[int, str]:
        found = {}
        for file in self.places.pipe.glob("client.*"):
            try:
                pid, start, *rest = file.read_text().split()
            except (OSError, ValueError):
                continue
            if pid.isdigit() and start.isdigit() and start_time(int(pid)) == int(start) != 0:
                found[int(pid)] = " ".join(rest)
        return found

    def _device_client_list(self, operands: list[str]) -> str:
        servers = [self._server(operands)] if operands else list(self.servers)
        uuid = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        return "\n".join(f"{uuid}:\n" + "\n".join(f"  {pid}" for pid in self._clients(server)) for server in servers)

    def _ps(self, operands: list[str]) -> str:
        wanted = int(operands[1]) if operands[:1] == ["-p"] and operands[1:] and operands[1].isdigit() else None
        rows = ["PID       ID    SERVER    DEVICE             NAMESPACE    COMMAND  ATTRIBUTES"]
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        for server in self.servers:
            for number, pid in enumerate(self._clients(server), start=1):
                if wanted in (None, pid):
                    name = command_name(pid)
                    rows.append(f"{pid:<10}{number:<6}{server:<10}{device[:17]:<19}{namespace(pid):<13}{name}")
        return "\n".join(rows)

    def _terminate_client(self, operands: list[str]) -> str:
        server = self._server(operands)
        if len(operands) != 2 or not operands[1].isdigit() or int(operands[1]) not in self._clients(server):
            raise Refusal(f"Client {' '.join(operands[1:])} not found")
        client = int(operands[1])
        self.seen[server].discard(client)
        if client in self._clients_there():
            done = subprocess.run([emuctl(), "terminate", str(client)], check=False, capture_output=True, timeout=10)
            if done.returncode:
                raise Refusal(f"Failed to terminate client {client}")
        self._note(f"Client {client} of server {server} is terminated")
        return ""

    def _shutdown_server(self, operands: list[str]) -> str:
        server = self._server(operands)
        if self._clients(server) and "-f" not in operands:
            raise Refusal(f"Server {server} has clients; use shutdown_server {server} -f")
        self._end_server(server)
        return ""

    def _quit(self, _operands: list[str]) -> str:
        self.over = True
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

    def _note(self, line: str) -> None:
        with (self.places.log / "control.log").open("a") as log:
            log.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')} Control {os.getpid():>5}] {line}\n")


def serve(uid: int) -> None:
    """A server's process: it is there. Where the real one has the GPU, the emulated driver has all that it would do."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.closerange(3, 256)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    import ctypes  # noqa: PLC0415 - what only asks does without

    ctypes.CDLL(None).prctl(PR_SET_NAME, SERVER_NAME[:15], 0, 0, 0)
    os.setsid()
    if uid and os.geteuid() == 0:
        os.setgid(uid)
        os.setuid(uid)
    while True:
        signal.pause()


def hang() -> None:
    while True:
        time.sleep(3600)


def emuctl() -> str:
    """Beside the emulated driver's directory, in which this file lies."""
    return os.fspath(Path(__file__).resolve().parent.parent / "bin" / "emuctl")


def command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "-"


def namespace(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink().name.partition("[")[2].rstrip("]")
    except OSError:
        return "-"


# ---------------------------------------------------------------------- the command


def ask(places: Places, command: str) -> tuple[bool, str]:
    """The daemon's answer to one command."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.fspath(places.control))
            connection.sendall(f"{command}\n".encode())
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile().read()
        except OSError:
            return False, NO_DAEMON
    return True, answer.rstrip("\n")


def interact(places: Places) -> int:
    """Commands from standard input, one a line, as `echo quit | nvidia-cuda-mps-control` gives them."""
    code = 0
    for line in sys.stdin:
        if not line.strip():
            continue
        there, answer = ask(places, line.strip())
        if answer:
            print(answer, flush=True)
        if not there:
            return 1
        if line.split()[0] == "quit":
            wait_for_end(places, line.split()[1:])
    return code


def wait_for_end(places: Places, operands: list[str]) -> None:
    seconds = float(operands[1]) if operands[:1] == ["-t"] and len(operands) == 2 else 60.0
    deadline = time.monotonic() + seconds
    while places.control.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def daemonise() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)


def main(arguments: list[str]) -> int:
    places = Places()
    flags = set(arguments)
    multi_user = bool(flags & {"-multiuser-server", "-M"})
    unknown = flags - {"-d", "-f", "-v", "-multiuser-server", "-M"}
    if unknown:
        print(f"nvidia-cuda-mps-control: unknown option {' '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    if "-v" in flags:
        print(VERSION)
        return 0
    if not flags & {"-d", "-f"}:
        return interact(places)
    if ask(places, "get_server_list")[0]:
        print("An instance of this daemon is already running", file=sys.stderr)
        return 1
    if "-d" in flags:
        daemonise()
    return Daemon(places, multi_user).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
