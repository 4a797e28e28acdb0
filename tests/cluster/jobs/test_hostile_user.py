"""A user who does whatever a job can do: other users' jobs run on, fikitd too, and nothing of theirs is shown or changed."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import remains
from fikitd.api.client import Control
from fikitd.api.reports import ReportError, ReportStore
from fikitd.base import protocol
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store import own_directory
from raw_hello import hello, uuids
from users import as_user

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
SECONDS = os.environ.get("FIKIT_HOSTILE_S", "2")  # of garbage in the page; FIKIT_HOSTILE_S=60 for a minute


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
    hellos = ",".join(hello(uuid) for uuid in uuids(cluster))
    program = Path(shutil.copy(Path(__file__).resolve().parents[1] / "programs" / "hostile.py", cluster.directory))
    words = (
        GPU,
        f"--fikit-priority={theirs}",
        "/usr/bin/python3",
        program,
        cluster.sandbox.run_dir,
        hellos,
        victim,
    )
    done = cluster.sandbox.run(
        [*as_user("www-data"), "srun", *map(str, words), SECONDS],
        env=cluster.env,
        timeout=30 + float(SECONDS),
        cwd=cluster.directory,
    )
    tried = done.stdout.splitlines()
    assert tried[-1:] == ["tried everything"], (tried, done.stderr)
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


def test_names_that_somebody_took_and_reports_that_somebody_planted_cost_their_user_nothing(
    cluster: Cluster, spin: Path
) -> None:
    sandbox, victim = cluster.sandbox, pwd.getpwnam("games")
    number = int(
        cluster.run(
            "srun", GPU, "--fikit-priority=low", "sh", "-c", f"echo $SLURM_JOB_ID; {spin} 2 20000"
        ).stdout.split()[0]
    )
    genuine = cluster.until(lambda: ReportStore(sandbox.report_dir).load(str(number)), "there is no report")
    forged = {**genuine, "uid": victim.pw_uid, "kernels": 666}
    take = "import json, sys; f = json.load(sys.stdin); [open(name, 'w').write(json.dumps({**f, 'job': job})) for name, job in f['files']]"
    planted = [(str(sandbox.report_dir / f"{n}.json"), str(n)) for n in range(number + 1, number + 20)]
    taken = [directory / str(victim.pw_uid) for directory in (sandbox.report_dir, sandbox.profile_dir)]
    subprocess.run([*as_user("www-data"), "mkdir", *map(str, taken)], check=True)
    words = [*as_user("www-data"), "/usr/bin/python3", "-c", take]
    subprocess.run(words, input=json.dumps({**forged, "files": planted}), text=True, check=True)
    try:
        work = f"echo JOB $SLURM_JOB_ID; exec {spin} 20 20000"
        srun = ["srun", GPU, "--fikit-measure", "--fikit-profile=mine", "sh", "-c", work]
        done = sandbox.run([*as_user("games"), *srun], env=cluster.env, cwd="/", timeout=60)
        assert (done.returncode, "measured 20 kernels" in done.stderr) == (0, True), done.stderr
        job = done.stdout.split()[1]
        assert (str(sandbox.report_dir / f"{job}.json"), job) in planted

        def reported() -> int:
            with suppress(ReportError):  # until there is more than what was planted
                return cluster.reported_kernels(job)
            return 0

        cluster.until(lambda: reported() == 20, "the victim's report is not what is shown")
        profile = ProfileStore(sandbox.profile_dir).load(victim.pw_uid, "mine")
        assert profile is not None
        assert profile["launches"] == 20
        for store in (sandbox.report_dir, sandbox.profile_dir):
            (own,) = own_directory.of(store, victim.pw_uid)
            assert (own.stat().st_uid, own.stat().st_mode & 0o777) == (victim.pw_uid, 0o700)
        assert cluster.run("fikit", "report", "--list").returncode == 0
    finally:
        for name, _ in planted:
            Path(name).unlink()
        for directory in taken:
            shutil.rmtree(directory)


SAY_HELLO = """
import socket, sys
c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
c.settimeout(10)
c.connect(sys.argv[1] + "/fikitd.sock")
c.send(bytes.fromhex(sys.argv[2]))
packet = c.recv(4096)
print(int.from_bytes(packet[:4], "little"), packet[8:].split(bytes(1))[0].decode(errors="replace"))
"""


def test_a_job_cannot_share_the_gpu_of_another_job(cluster: Cluster, spin: Path) -> None:
    enough = cluster.directory / "enough-elsewhere"
    script = cluster.script("elsewhere", f"until [ -e {enough} ]; do {spin} 400 250000 || exit 1; done")
    victim = cluster.submit_running(script, "--fikit-priority=low", "--fikit-mem=16G")  # all of its GPU
    control = Control(cluster.sandbox.run_dir)
    theirs = cluster.until(lambda: [job for job in control.jobs() if job["job"] == victim], "it is not managed")
    uuid = theirs[0]["device"]["uuid"]
    words = (GPU, "--fikit-priority=high", "/usr/bin/python3", "-c", SAY_HELLO, cluster.sandbox.run_dir, hello(uuid))
    tried = cluster.sandbox.run(
        [*as_user("www-data"), "srun", *map(str, words)], env=cluster.env, timeout=60, cwd=cluster.directory
    ).stdout
    enough.touch()
    cluster.wait(victim)
    assert f"{protocol.REFUSED} {uuid} is not a GPU of job " in tried
