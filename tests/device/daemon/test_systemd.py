"""site/fikitd.service under a real systemd, as process 1 of a namespace of its own, without any unit of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import SOURCE, eventually
from emulator_tools import ROOT
from plugin_fake import HAVE_HEADERS, load

from fikitd import paths

SYSTEMD = Path("/lib/systemd/systemd")
TARGETS = ("sysinit", "basic", "shutdown", "default", "multi-user", "network", "remote-fs", "exit", "emergency")
# What the machine has in /run and /var/lib, and its cgroups, are not this systemd's.
BEGIN = """
set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib
export container=fikit SYSTEMD_UNIT_PATH="$1"
exec "$2" --system --unit=default.target --log-target=console --show-status=no
"""


def unit_text() -> str:
    return (ROOT / "site/fikitd.service").read_text().replace("/usr/lib/fikit/bin", str(Path(sys.executable).parent))


class Node:
    """Another system on this machine."""

    def __init__(self, first: int) -> None:
        self._first = first

    def run(self, *command: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self._first}", "--mount", "--pid", "--uts", "--ipc"]
        return subprocess.run(
            [*enter, *map(str, command)], env=env, capture_output=True, text=True, timeout=240, check=False
        )


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    """An own one, which is this systemd's root: nothing of its slices stays on the machine."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    root = tmp_path / "cgroup"
    root.mkdir()
    own = root / f"fikit-{os.getpid()}"
    if subprocess.run(["mount", "-t", "cgroup2", "none", root], capture_output=True, check=False).returncode:
        pytest.skip("cgroups of version 2 cannot be mounted here")
    try:
        own.mkdir()
        yield own
        eventually(lambda: "populated 0" in (own / "cgroup.events").read_text())
        for directory, _, _ in os.walk(own, topdown=False):
            Path(directory).rmdir()
    finally:
        subprocess.run(["umount", root], check=True)


@pytest.fixture
def node(tmp_path: Path, cgroup: Path) -> Iterator[Node]:
    if not SYSTEMD.exists():
        pytest.skip("needs systemd")
    units = tmp_path / "units"
    units.mkdir()
    for name in TARGETS:
        (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (units / "fikitd.service").write_text(unit_text())
    (units / "fikitd.service.d").mkdir()
    log = tmp_path / "systemd.log"
    move = ["sh", "-c", 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"', "sh", cgroup]
    apart = [
        *move,
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--ipc",
        "--uts",
        "--cgroup",
        "--mount-proc",
    ]
    with log.open("wb") as output:
        parent = subprocess.Popen(
            [*apart, "sh", "-c", BEGIN, "sh", units, SYSTEMD], stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
    try:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        first = eventually(lambda: parent.poll() is not None or children.read_text().split())
        if parent.poll() is not None:
            pytest.skip(f"systemd cannot be process 1 of a namespace here: {log.read_text()[-300:]}")
        node = Node(int(first[0]))
        deadline = time.monotonic() + 15
        while node.run("systemctl", "is-system-running").stdout.strip() != "running":
            if parent.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"systemd does not start in a namespace here: {log.read_text()[-300:]}")
            time.sleep(0.1)
        yield node
    finally:
        parent.kill()  # and with it, as the first process of its namespace, systemd and everything that it started
        parent.wait()


@pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev")
def test_a_prolog_starts_the_service_and_programs_outlive_its_restarts(
    node: Node, tmp_path: Path, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> None:
    load(cc, tmp_path / "slurm")
    child = [
        sys.executable,
        ROOT / "tests/device/daemon/systemd_child.py",
        tmp_path / "slurm/plugin.so",
        cc(SOURCE),
        paths.shim(),
    ]
    done = node.run(*child, env=emulator_env())
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["prolog"] == {
        "before": "inactive", "after": "active", "record": True, "log": "", "record_after_epilog": False,
    }  # fmt: skip
    assert told["program"] == {
        "first": "done 100\n", "kept": 5, "restart": "running", "kill": "running",
        "out": "done 100\n", "err": "", "code": 0, "report": [200, 1, []],
    }  # fmt: skip
    assert (told["stopped"], told["result"]) == ("inactive", "success")


def test_mps_outlives_restarts_of_the_service_and_ends_with_its_last_job(
    node: Node, tmp_path: Path, native: Path, emulator_env: Callable[..., dict[str, str]]
) -> None:
    (tmp_path / "fikit.toml").write_text('[gpu]\nmps = "multi-user"\n')
    path = f"{native / 'emulator'}:{Path(sys.executable).parent}:/usr/bin:/bin"
    env = emulator_env(PATH=path, FIKIT_CONFIG=str(tmp_path / "fikit.toml"))
    names = [name for name in env if name.startswith(("EMUCUDA_", "LD_LIBRARY_PATH", "PATH", "FIKIT_CONFIG"))]
    drop_in = tmp_path / "units/fikitd.service.d/site.conf"
    drop_in.write_text("[Service]\n" + "".join(f'Environment="{name}={env[name]}"\n' for name in names))
    assert node.run("systemctl", "daemon-reload").returncode == 0
    done = node.run(sys.executable, ROOT / "tests/device/daemon/systemd_child.py", env=env)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert len(told["begun"]) == 2, "control daemon and server"
    assert told["restart"] == told["kill"] == told["begun"]
    assert all(cgroup.endswith("/fikitd.service") for cgroup in told["cgroups"])
    assert (told["fikitd"], told["ended"]) == (3, [])


@pytest.mark.parametrize("code", [0, 1])
def test_the_module_that_mps_opens_is_loaded_before_the_service_or_missed(
    node: Node, tmp_path: Path, code: int
) -> None:
    """What `modprobe@.service` does is systemd's; this one leaves a mark, and may fail."""
    order = tmp_path / "order"
    text = f"[Service]\nType=oneshot\nExecStart=/bin/sh -c 'sleep .3; echo %i >>{order}; exit {code}'\n"
    (tmp_path / "units/modprobe@.service").write_text(text)
    drop_in = f"[Service]\nType=oneshot\nExecStartPre=\nExecStart=\nExecStart=/bin/sh -c 'echo fikitd >>{order}'\n"
    (tmp_path / "units/fikitd.service.d/order.conf").write_text(drop_in)
    assert node.run("systemctl", "daemon-reload").returncode == 0
    started = node.run("systemctl", "start", "fikitd")
    assert started.returncode == 0, started.stderr
    assert order.read_text().split() == ["nvidia_uvm", "fikitd"]


def test_what_an_agent_has_left_set_is_looked_for_after_it_has_ended(node: Node, tmp_path: Path) -> None:
    """The agent is a program that sleeps here, --clear one that leaves a line, and minutes are seconds."""
    cleared = tmp_path / "cleared"
    cleared.touch()
    for name in ("fikit-place.service", "fikit-place-clear.service", "fikit-place-clear.timer"):
        text = (ROOT / "site" / name).read_text()
        for old, new in (
            ("/usr/lib/fikit/bin/fikit place --daemon", "/bin/sleep infinity"),
            ("/usr/lib/fikit/bin/fikit place --clear", f"/bin/sh -c 'echo $$PPID >>{cleared}'"),
            ("User=slurm", "User=root"),
            ("5min", "500ms"),
            ("AccuracySec=10s", "AccuracySec=50ms"),
        ):
            text = text.replace(old, new)
        # This systemd shares the machine's files.
        kept = [line for line in text.splitlines() if not line.startswith(("Private", "Protect", "Memory", "CPU"))]
        (tmp_path / "units" / name).write_text("\n".join([*kept, ""]))
    assert node.run("systemctl", "daemon-reload").returncode == 0
    done = node.run("systemctl", "start", "fikit-place")
    assert done.returncode == 0, done.stderr
    assert node.run("systemctl", "is-active", "fikit-place-clear.timer").stdout.strip() == "active"
    assert node.run("systemctl", "stop", "fikit-place").returncode == 0
    before = len(cleared.read_text().splitlines())
    eventually(lambda: len(cleared.read_text().splitlines()) >= before + 2)
    assert node.run("systemctl", "stop", "fikit-place-clear.timer").returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "fikitd.service"
    unit.write_text(unit_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "fikitd" in line]
    assert (done.returncode, ours) == (0, [])
    unit.write_text(unit_text().replace("Restart=on-failure", "Restart=sometimes"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )
    assert "sometimes" in done.stderr
