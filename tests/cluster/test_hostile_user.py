"""A user who does whatever a job can do: other users' jobs run on, fikitd too, and nothing of theirs is shown or changed."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import remains
from fikitd.client import Control
from users import as_user

from fikitd import protocol

if TYPE_CHECKING:
    from conftest import Cluster

GPU = "--gres=gpu:1"
SECONDS = os.environ.get("FIKIT_HOSTILE_S", "2")  # of garbage in the page; FIKIT_HOSTILE_S=60 for a minute


def hello(uuid: str) -> str:
    """What a shim on that GPU sends first, in hexadecimal digits."""
    packet = protocol.HelloLayout(version=protocol.VERSION, purpose=protocol.PURPOSE_WORK, gpu_memory_bytes=2**34)
    packet.head.type, packet.head.bytes = protocol.HELLO, ctypes.sizeof(packet)
    packet.gpu_uuid[:] = bytes.fromhex(uuid.removeprefix("GPU-").replace("-", ""))
    packet.gpu_name[:8] = b"Emulated"
    return bytes(packet).hex()


@pytest.mark.parametrize(("theirs", "victims"), [("low", "high"), ("high", "low")])
def test_whatever_a_user_tries_from_a_job_its_neighbours_run_on(
    cluster: Cluster, spin: Path, theirs: str, victims: str
) -> None:
    enough = cluster.directory / f"enough-{theirs}"
    script = cluster.script(
        f"victim-{victims}", f"until [ -e {enough} ]; do {spin} 400 250000 || exit 1; done", f"exec {spin} 7 20000"
    )
    victim = cluster.submit_running(script, f"--fikit-priority={victims}")
    daemons = [process.pid for process in remains.daemons(cluster.sandbox)]
    uuid = Control(cluster.sandbox.run_dir).job(victim)["device"]["uuid"]
    program = Path(shutil.copy(Path(__file__).parent / "src" / "hostile.py", cluster.directory))
    words = (
        GPU,
        f"--fikit-priority={theirs}",
        "/usr/bin/python3",
        program,
        cluster.sandbox.run_dir,
        hello(uuid),
        victim,
    )
    tried = cluster.sandbox.run(
        [*as_user("www-data"), "srun", *map(str, words), SECONDS],
        env=cluster.env,
        timeout=30 + float(SECONDS),
        cwd=cluster.directory,
    ).stdout.splitlines()
    assert tried[-1:] == ["tried everything"]
    assert [line for line in tried if not line.startswith("held: ")] == tried[-1:]
    assert len(tried) > 20
    assert cluster.fields(victim)["JobState"] == "RUNNING"
    enough.touch()
    output = cluster.wait(victim)
    rounds = output.count("done") - 1
    assert rounds > 0
    assert f" {400 * rounds + 7} kernels" in cluster.summaries(output, victim)[0]
    assert [process.pid for process in remains.daemons(cluster.sandbox)] == daemons, "fikitd did not stay"
    remains.nothing_remains(cluster.sandbox)
