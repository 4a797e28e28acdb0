"""Runs where systemd is process 1 (test_systemd.py): fikitd.service is started by a prolog, restarted and killed under a program.

Arguments: the plugin, the program, the shim; none: it is restarted and killed under MPS. Prints one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from daemon_process import Runner, eventually
from fikitd.api.client import Control, DaemonUnreachable
from fikitd.api.reports import ReportStore
from fikitd.mps.control import began
from fikitd.store.records import JobRecord
from plugin_fake import Node, declare, set_job_option

RUN_DIR = Path("/run/fikit")
control = Control(RUN_DIR)


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False).stdout.strip()


def shown(name: str) -> str:
    return systemctl("show", "--value", "--property", name, "fikitd.service")


def prolog(plugin: str) -> dict[str, object]:
    """The job of fake_spank.c, number 12, on a node where no fikitd runs."""
    library = declare(ctypes.CDLL(plugin))
    node = Node(library, RUN_DIR, "systemd=auto")
    set_job_option(library, "fikit-priority", "high")
    before = shown("ActiveState")
    node.prolog()
    facts = {"before": before, "after": shown("ActiveState"), "record": node.record.exists(), "log": node.log()}
    node.epilog()
    return {**facts, "record_after_epilog": node.record.exists()}


def answers_anew(earlier: str) -> bool:
    try:
        return shown("MainPID") not in {"0", earlier} and bool(control.ping())
    except DaemonUnreachable:
        return False


def under_restarts(program: str, shim: str) -> dict[str, object]:
    """A program that runs on while fikitd is restarted and killed."""
    runner = Runner(SimpleNamespace(run_dir=RUN_DIR, control=control), Path(program), Path(shim), dict(os.environ))  # type: ignore[arg-type]
    job, process = runner.start(100, 50_000, "hold")
    assert process.stdout is not None
    facts: dict[str, object] = {"first": process.stdout.readline()}
    eventually(lambda: control.job(job)["kernels"] == 100)
    facts["kept"] = int(shown("NFileDescriptorStore"))
    for how in (("restart", "fikitd.service"), ("kill", "--signal=KILL", "fikitd.service")):
        earlier = shown("MainPID")
        systemctl(*how)
        eventually(lambda earlier=earlier: answers_anew(earlier))
        eventually(lambda: control.job(job)["kernels"] == 100)
        facts[how[0]] = control.job(job)["state"]
    out, err = process.communicate("x", timeout=60)
    facts |= {"out": out, "err": err, "code": process.returncode}
    runner.end(job)
    report = ReportStore("/var/lib/fikit/reports").load(job)
    facts["report"] = report and [report["kernels"], report["processes"], report["warnings"]]
    eventually(lambda: shown("NFileDescriptorStore") == "0")
    return facts


def mps_under_restarts() -> dict[str, object]:
    """A job that was told to join MPS, while fikitd is restarted and killed."""
    systemctl("start", "fikitd.service")
    eventually(lambda: answers_anew(""))
    JobRecord(job="7", uid=0, gid=0, priority=5, gpus="0").write(RUN_DIR)
    eventually(lambda: control.mps("7"))
    (server,) = eventually(lambda: [file for file in RUN_DIR.glob("mps/*/emulated_server") if file.read_text()])
    control_daemon = json.loads(next(RUN_DIR.glob("mps/*.json")).read_text())["pid"]
    pids = [control_daemon, int(server.read_text().split()[0])]

    def living() -> list[int]:
        return [pid for pid in pids if began(pid)]

    facts: dict[str, object] = {"begun": living()}
    facts["cgroups"] = [Path(f"/proc/{pid}/cgroup").read_text().strip() for pid in pids]
    fikitds = {shown("MainPID")}
    for how in (("restart", "fikitd.service"), ("kill", "--kill-who=main", "--signal=KILL", "fikitd.service")):
        earlier = shown("MainPID")
        systemctl(*how)
        eventually(lambda earlier=earlier: answers_anew(earlier))
        fikitds.add(shown("MainPID"))
        facts[how[0]] = living()
    control.end("7")  # the last one, to a fikitd that did not begin it
    (RUN_DIR / "jobs/7").unlink()
    eventually(lambda: not living())
    return {**facts, "fikitd": len(fikitds), "ended": living()}


def main() -> None:
    if len(sys.argv) == 1:
        print(json.dumps(mps_under_restarts()))
        return
    plugin, program, shim = sys.argv[1:]
    facts = {"prolog": prolog(plugin), "program": under_restarts(program, shim)}
    systemctl("stop", "fikitd.service")
    print(json.dumps({**facts, "stopped": shown("ActiveState"), "result": shown("Result")}))


main()
