"""Nodes of a throw-away Slurm that are as apart as one machine can have them.

Each has a network namespace with one interface on a common bridge, a host name, and a run_dir of its own where all others have
theirs. What is shared is what a cluster shares: the other files. The machine's own network sees one more bridge, in a network
that RFC 2544 keeps free for tests.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fikit.errors import UserError

NETWORKS = [f"198.{second}.{third}" for second in (18, 19) for third in range(256)]


class NetworkError(UserError):
    """Nodes cannot be kept apart here; one sentence that says why and what to do."""


@dataclass(frozen=True)
class Node:
    """One node. `run_dir`: its own, as everybody outside of it sees it."""

    name: str
    address: str
    namespace: str
    run_dir: Path


class Network:
    """The bridge and its nodes. `controller` is the address under which the machine itself is reached from them."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        """`root`: of the sandbox, whose run_dir is root/run on each node."""
        self._bridge = f"fk{secrets.token_hex(4)}"
        self._run_dir = root / "run"
        net = secrets.choice(NETWORKS)
        self.controller = f"{net}.1"
        self.nodes = [
            Node(name, f"{net}.{10 + number}", f"{self._bridge}.{number}", root / "nodes" / name)
            for number, name in enumerate(names)
        ]

    def start(self) -> None:
        """Raises NetworkError when the machine does not allow it; nothing is left then."""
        if not _installed():
            raise NetworkError("nodes with networks of their own need Debian's package iproute2")
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self.controller}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for number, node in enumerate(self.nodes):
                self._plug_in(node, f"{self._bridge}v{number}")
        except BaseException:
            self.stop()
            raise

    def _plug_in(self, node: Node, port: str) -> None:
        node.run_dir.mkdir(parents=True)
        node.run_dir.chmod(0o755)
        _ip("netns", "add", node.namespace)
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", node.namespace)
        _ip("link", "set", port, "master", self._bridge, "up")
        for device in ("lo", "eth0"):
            _ip("-n", node.namespace, "link", "set", device, "up")
        _ip("-n", node.namespace, "address", "add", f"{node.address}/24", "dev", "eth0")

    def stop(self) -> None:
        """Take it all away; may be called twice, and without `ip`. The cables go with the namespaces."""
        if not _installed():
            return
        for node in self.nodes:
            subprocess.run([_PROGRAM, "netns", "delete", node.namespace], capture_output=True, check=False)
        subprocess.run([_PROGRAM, "link", "delete", self._bridge], capture_output=True, check=False)

    def inside(self, node: Node, command: Sequence[str]) -> list[str]:
        """The command that runs `command` on a node."""
        setting = 'mount --bind "$1" "$2"; hostname "$3"; shift 3; exec "$@"'
        return [  # not by `ip netns exec`, which mounts a /sys without cgroups
            "nsenter", f"--net=/run/netns/{node.namespace}", "unshare", "--mount", "--uts",
            "sh", "-ec", setting, "sh", str(node.run_dir), str(self._run_dir), node.name, *command,
        ]  # fmt: skip


def _installed() -> bool:
    return shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin") is not None


_PROGRAM = "/usr/sbin/ip" if Path("/usr/sbin/ip").exists() else "ip"


def _ip(*words: str) -> None:
    done = subprocess.run([_PROGRAM, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        raise NetworkError(f"nodes with networks of their own cannot be made here: ip {' '.join(words)}: {why}")
