"""What the demo runs: the two programs, their sizes, and where their files are."""

from __future__ import annotations

import importlib.util
import os
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from fikitd.config.fikit_toml import SchedulerConfig

from fikit.errors import UserError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MODEL = EXAMPLES / "demo_gpu.toml"  # of the emulated GPU
HIGH_REQUESTS, LOW_STEPS = 160, 800
MEASURED_REQUESTS, MEASURED_STEPS = (
    100,
    200,
)  # a look at the loss comes every ten steps: fewer tell little of the idle time after it
ALONE = ("alone", "again")  # a busy machine makes a run longer and none shorter: the shortest is what a job takes alone
PAUSE_MS = 3  # of the high-priority job, until its next request is there: idle time that its own host does not need
MAX_SLOWDOWN = "2%"  # what the low job may cost the high one on the device; the rest of the promised 5 % is the hosts'


@dataclass(frozen=True)
class Job:
    """One program of one run. `options` are fikit's, without the prefix: {"priority": "high"}; none = unmanaged."""

    name: str
    argv: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """Jobs that begin their loops together under one policy; `label` is for the progress bar."""

    label: str
    policy: str
    jobs: tuple[Job, ...]


def steps(meet: Path) -> dict[str, Step]:
    """The demo in order. The jobs of a step meet in the directory `meet`, which is emptied between steps."""
    pause = ("--pause", str(PAUSE_MS))
    high = _program("classify.py", "high", "--requests", HIGH_REQUESTS, meet, *pause)
    low = _program("train.py", "low", "--steps", LOW_STEPS, meet)
    short_high = _program("classify.py", "high", "--requests", MEASURED_REQUESTS, meet, *pause)
    short_low = _program("train.py", "low", "--steps", MEASURED_STEPS, meet)

    def measured(name: str, argv: tuple[str, ...]) -> Job:
        return Job(name, argv, {"measure": "", "profile": f"demo-{name}"})

    def shared() -> tuple[Job, ...]:
        return (
            Job("high", high, {"priority": "high", "max-slowdown": MAX_SLOWDOWN, "profile": "demo-high"}),
            Job("low", low, {"priority": "low", "profile": "demo-low"}),
        )

    ours = SchedulerConfig().policy
    return {
        "measure_high": Step("measuring the high-priority job", ours, (measured("high", short_high),)),
        "measure_low": Step("measuring the low-priority job", ours, (measured("low", short_low),)),
        "alone_high": Step("high-priority job alone", ours, (Job("high", high),)),
        "alone_low": Step("low-priority job alone", ours, (Job("low", low),)),
        "shared": Step("both, default sharing", "fifo", shared()),
        "fikit": Step("both, fikit", ours, shared()),
        "again_high": Step("high-priority job alone, again", ours, (Job("high", high),)),
        "again_low": Step("low-priority job alone, again", ours, (Job("low", low),)),
    }


def environment(emulated: bool, cache: Path) -> dict[str, str]:
    """What the programs get: tinygrad on CUDA, kernels launched one by one, compiled kernels kept from run to run."""
    env = {"DEV": "CUDA", "JIT": "2", "CACHEDB": str(cache / "tinygrad.db"), "PYTHONUNBUFFERED": "1"}
    if emulated:
        # The emulated GPU computes nothing: optimising the kernels would only lengthen the start.
        env |= {"DEV": "CUDA:PTX", "NOOPT": "1", "EMUCUDA_CONFIG": str(MODEL)}
    return env


def sharing() -> str:
    """How the demo's emulated GPU is shared, in words for people."""
    device = tomllib.loads(MODEL.read_text())["device"]
    return f"{device['sharing']} mode: {device['slice_us']:,} us, switch {device['switch_us']} us (assumed), emulated"


def cache_dir() -> Path:
    """Where compiled kernels stay between demos."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fikit"
    path.mkdir(parents=True, exist_ok=True)
    return path


def require() -> None:
    """Raise UserError when the demo's programs cannot run here."""
    if not EXAMPLES.is_dir():
        raise UserError(f"the demo's programs are not in {EXAMPLES}: run it from a checkout of fikit")
    if importlib.util.find_spec("tinygrad") is None:
        raise UserError("the demo's programs need tinygrad, which is not installed: pip install 'fikit[clients]'")


def _program(file: str, name: str, size_option: str, size: int, meet: Path, *more: str) -> tuple[str, ...]:
    return (sys.executable, str(EXAMPLES / file), size_option, str(size), "--meet", str(meet), "--name", name, *more)
