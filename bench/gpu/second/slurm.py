"""The part `slurm`: fikit under a real Slurm on this GPU, with MPS for two users. Which job do the reports blame for a trap?"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fikit.sandbox.processes import processes_of

from bench.gpu import mps, processes
from bench.gpu.context import Context, Found
from bench.gpu.second.slurm_kit import Kit
from bench.record import ROOT, BenchError

GIB = 2**30
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
COPIED = (
    "bench/__init__.py", "bench/gpu/__init__.py", "bench/gpu/sharing/__init__.py", "bench/gpu/sharing/worker.py",
    "bench/gpu/mps_client.py",
)  # fmt: skip
FOLDERS = ("bench/gpu/programs", "examples/gpu")


def measure(context: Context) -> Found:
    """Runs the jobs in a process of its own, so that a GPU that hangs costs no more than the part's time."""
    if os.geteuid() != 0:
        raise BenchError("couldn't run Slurm: it starts jobs as their users, and only root can do so")
    with _open_directory() as directory:
        kit = Kit(directory)
        emuctl = shutil.which("emuctl") if context.gpu.get("emulated") else None
        native = kit.native(directory / "native", context.library, emuctl)
        file = directory / "found.json"
        settings = _settings(context, kit, directory, file)
        (directory / "settings.json").write_text(json.dumps(settings))
        env = {
            **mps.with_mps_on_path(context.place.env, context.library),
            "FIKIT_NATIVE": str(native),
        }
        env["PATH"] = f"{kit.programs}:{env['PATH']}"
        command = [
            _own_python(directory, kit.python),
            "-m",
            "bench.gpu.second.slurm_jobs",
            str(directory / "settings.json"),
        ]
        failed = ""
        try:
            processes.run("slurm", command, env, context.place.directory, max(1.0, context.left() - 1))
        except BenchError as error:
            failed = str(error)
        finally:
            found = _found(file)
            _end(found)
        if failed or "error" in found:
            found["error"] = "; ".join(filter(None, (found.get("error", ""), failed)))
        return found


def _settings(context: Context, kit: Kit, directory: Path, file: Path) -> Found:
    """Fields of slurm_jobs.Settings."""
    options = context.options
    python = next(filter(_is_open, (os.path.realpath(sys.executable), SYSTEM_PYTHON)), SYSTEM_PYTHON)
    with_torch = options.with_torch() and _is_open(python, "import torch")
    high, low = ("decode", "batch") if with_torch else ("short_kernels", "long_kernels")
    return {
        "found": str(file), "programs": str(_programs(directory)), "python": python,
        "libraries": kit.libraries, "slurm_lines": kit.slurm_lines, "real": not context.gpu.get("emulated"),
        "gpu_memory_gib": int(context.gpu["memory_bytes"]) // GIB, "high": high, "low": low, "device": options.device,
        "quick": options.quick,
    }  # fmt: skip


def _is_open(python: str | Path, words: str = "") -> bool:
    """Whether other users can run this Python, and these words with it: a path may lead through root's home."""
    try:
        done = subprocess.run(
            [python, "-c", words], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, timeout=20, check=False
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _own_python(directory: Path, modules: Path) -> str:
    """A Python with fikit for the sandbox: a copy of this environment in `directory` where this one lacks a module, or where other users, as
    which fikitd writes their reports, cannot enter this one."""
    complete = all(importlib.util.find_spec(file.stem) for file in modules.iterdir())
    is_open = _is_open(sys.executable) or not _is_open(os.path.realpath(sys.executable))
    if complete and is_open:
        return sys.executable
    target = directory / "venv"
    shutil.copytree(sys.prefix, target, symlinks=True)
    for script in (target / "bin").iterdir():
        if not script.is_symlink():
            script.write_bytes(script.read_bytes().replace(os.fsencode(sys.prefix), os.fsencode(target)))
    for packages in (target / "lib").glob("python3*/site-packages"):
        (packages / "slurm_kit.pth").write_text(f"{modules}\n")
    return str(target / "bin" / Path(sys.executable).name)


def _programs(directory: Path) -> Path:
    """A copy that every user can read, wherever the checkout is."""
    target = directory / "programs"
    for name in COPIED:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, copy_function=shutil.copyfile)
    shutil.copyfile(Path(__file__).with_name("slurm_job.py"), target / "slurm_job.py")
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


@contextmanager
def _open_directory() -> Iterator[Path]:
    """A directory that other users may enter, with a short name; the run's own is closed to them."""
    directory = Path(tempfile.mkdtemp(prefix="fikit-slurm-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _found(file: Path) -> Found:
    with suppress(OSError, ValueError):
        return dict(json.loads(file.read_text()))
    return {}


def _end(found: Found) -> None:
    """Ends the daemons and jobs that a stopped run has left, and removes the sandbox."""
    root = found.pop("root", "")
    if not root or not Path(root).is_dir():
        return
    for process in processes_of(Path(root)):
        process.kill()
    shutil.rmtree(root, ignore_errors=True)
