"""The files of a throw-away Slurm: pure text, so that tests can read them without starting anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

GIB = 2**30
JOBS_AT_ONCE = 16  # CPUs that the node claims to have, so that jobs share the GPU and not the queue


@dataclass(frozen=True)
class Layout:
    """Where everything of one sandbox lies. `root` is short: Unix socket paths end at 107 bytes."""

    root: Path

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    @property
    def report_dir(self) -> Path:
        return self.root / "reports"

    @property
    def profile_dir(self) -> Path:
        return self.root / "profiles"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def fikit_toml(self) -> Path:
        return self.etc / "fikit.toml"

    @property
    def native(self) -> Path:
        """Copies of the native files: every user reaches them, and a rebuild does not change them under jobs."""
        return self.root / "native"

    @property
    def slurm_conf(self) -> Path:
        return self.etc / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.root / "munge" / "socket"

    def directories(self) -> list[Path]:
        """Every directory, parents first."""
        spool = [self.root / name for name in ("munge", "state", "spool", "dev")]
        return [self.etc, self.logs, self.run_dir, self.report_dir, self.profile_dir, *spool]


@dataclass(frozen=True)
class Machine:
    """What the sandbox's nodes look like: the machine, once or several times. All of them have its GPUs.

    apart: the addresses of nodes with networks and host names of their own, by name.
    """

    hostname: str
    memory_mb: int
    controller_port: int
    node_ports: list[int]
    gpu_files: list[Path]
    gpu_memory_gib: int
    gpu_types: list[str]
    real_gpu: bool = False
    spread: bool = False
    apart: dict[str, str] = field(default_factory=dict)
    controller: str = "127.0.0.1"

    @property
    def nodes(self) -> list[str]:
        if self.apart:
            return list(self.apart)
        return [self.hostname] if len(self.node_ports) == 1 else [f"node{i}" for i in range(len(self.node_ports))]


@dataclass(frozen=True)
class Programs:
    """What of fikit the sandbox's Slurm uses."""

    plugin: Path
    lua: Path
    shim: Path
    daemon: Path
    job_environment: dict[str, str] = field(default_factory=dict)


def slurm_conf(layout: Layout, machine: Machine, further: Sequence[str] = (), accounting: Sequence[str] = ()) -> str:
    """One partition, everything private. Debian's defaults where nothing is said; `further` lines go before the partition."""
    gres = ",".join(f"{name}:{type_}:{count}" for name, type_, count in _gres(machine))
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={name if machine.apart else machine.hostname} "
        f"NodeAddr={machine.apart.get(name, '127.0.0.1')} Port={port} CPUs={JOBS_AT_ONCE} "
        f"RealMemory={machine.memory_mb} Gres={gres}"
        for name, port in zip(machine.nodes, machine.node_ports, strict=True)
    )
    lines = "\n".join([nodes, *further])
    accounting_lines = "\n".join(accounting or ["AccountingStorageType=accounting_storage/none"])
    of_node = "" if len(machine.nodes) == 1 else ".%n"
    return f"""\
ClusterName=sandbox
SlurmctldHost={machine.hostname}({machine.controller})
SlurmctldPort={machine.controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={layout.munge_socket}
CryptoType=crypto/munge
StateSaveLocation={layout.root}/state
SlurmdSpoolDir={layout.root}/spool/%n
SlurmctldPidFile={layout.root}/slurmctld.pid
SlurmdPidFile={layout.root}/slurmd{of_node}.pid
SlurmctldLogFile={layout.logs}/slurmctld.log
SlurmdLogFile={layout.logs}/slurmd{of_node}.log
SlurmdDebug=debug
PlugStackConfig={layout.etc}/plugstack.conf
JobSubmitPlugins=lua
CliFilterPlugins=lua
PrologFlags=Alloc
TaskProlog={layout.etc}/task_prolog
SelectType=select/cons_tres
SelectTypeParameters=CR_Core{",LL_SHARED_GRES" if machine.spread else ""}
GresTypes=gpu,shard
# No cgroups: the sandbox also runs in containers.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
{accounting_lines}
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
# Nobody waits for the defaults of a cluster here.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=1
CompleteWait=0
ReturnToService=1
SlurmdParameters=config_overrides
{lines}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def _gres(machine: Machine) -> Iterator[tuple[str, str, int]]:
    """Shards are typed as GPUs are, or a step of a job that asks for --gres=gpu:TYPE:1 cannot start."""
    for name, per_gpu in (("gpu", 1), ("shard", machine.gpu_memory_gib)):
        for type_ in dict.fromkeys(machine.gpu_types):
            yield name, type_, per_gpu * machine.gpu_types.count(type_)


def gres_conf(machine: Machine) -> str:
    """Type= is needed before Slurm 23.11.5, or an exclusive job lands on a shared GPU; File= where types differ."""
    gpus = list(zip(machine.gpu_types, machine.gpu_files, strict=True))
    lines = [f"Name=gpu Type={type_} File={file}" for type_, file in gpus]
    if len(set(machine.gpu_types)) == 1:
        lines.append(f"Name=shard Count={len(gpus) * machine.gpu_memory_gib}")
    else:
        lines += [f"Name=shard Type={type_} Count={machine.gpu_memory_gib} File={file}" for type_, file in gpus]
    return "\n".join([*lines, ""])


def plugstack_conf(layout: Layout, programs: Programs) -> str:
    return (
        f"required {programs.plugin} run_dir={layout.run_dir} shim={programs.shim} daemon={layout.etc}/fikitd "
        f"config={layout.fikit_toml} systemd=off\n"
    )


def lua_script(name: str, layout: Layout, programs: Programs) -> str:
    """Slurm reads job_submit.lua and cli_filter.lua beside slurm.conf: ours call the installed ones."""
    return f"FIKIT_CONFIG = [[{layout.fikit_toml}]]\ndofile([[{programs.lua / name}]])\n"


def fikitd_script(layout: Layout, programs: Programs) -> str:
    """fikitd as the sandbox's prologs start it: with the emulated GPU's NVML, its MPS, and this Slurm, which stand for installed ones."""
    emulator = {**programs.job_environment}
    if "EMUCUDA_NAME" in emulator:
        emulator["EMUCUDA_NAME"] = emulator["EMUCUDA_NAME"].replace("$SLURMD_NODENAME", "$(hostname)")
    lines = [f'export {name}="{value}"' for name, value in {**emulator, "SLURM_CONF": str(layout.slurm_conf)}.items()]
    if "LD_LIBRARY_PATH" in emulator:
        lines.append(f'export PATH="{emulator["LD_LIBRARY_PATH"]}:$PATH"')
    return "\n".join(["#!/bin/sh", *lines, f'exec env -u PWD {programs.daemon} "$@"', ""])


def task_prolog(programs: Programs) -> str:
    """Slurm sets in the task what this prints: every job finds the emulated GPU, whatever it exports."""
    lines = [f'echo "export {name}={value}"' for name, value in programs.job_environment.items()]
    if "LD_LIBRARY_PATH" in programs.job_environment:
        # The user's own entries stay, behind ours.
        lines.append('[ -z "$LD_LIBRARY_PATH" ] || echo "export LD_LIBRARY_PATH='
                     f'{programs.job_environment["LD_LIBRARY_PATH"]}:$LD_LIBRARY_PATH"')  # fmt: skip
    return "\n".join(["#!/bin/sh", *lines, ""])


def fikit_toml(  # noqa: PLR0917
    layout: Layout,
    machine: Machine,
    scheduler: dict[str, Any],
    access: dict[str, Any] | None = None,
    daemon: dict[str, Any] | None = None,
    sections: Mapping[str, dict[str, Any]] | None = None,
) -> str:
    """sections: further ones by name; an empty one is left out."""
    return tomlkit.dumps(
        {
            **({"access": access} if access else {}),
            "daemon": {
                "run_dir": str(layout.run_dir),
                "report_dir": str(layout.report_dir),
                "profile_dir": str(layout.profile_dir),
                **(daemon or {}),
            },
            "scheduler": scheduler,
            **{name: keys for name, keys in (sections or {}).items() if keys},
            "slurm": {
                "gpu_memory_gib": machine.gpu_memory_gib,
                "default_share_gib": max(1, machine.gpu_memory_gib // 4),
            },
        }
    )


def emulator_toml(model: dict[str, Any], machine: Machine, extra: dict[str, Any]) -> str:
    """The emulator's model with this sandbox's devices. Jobs of several users share a device: access is for all."""
    device = {
        **model.get("device", {}),
        "count": len(machine.gpu_files),
        "memory": f"{machine.gpu_memory_gib}GiB",
        "access": "all",
        **extra,
    }
    return tomlkit.dumps({**model, "device": device})
