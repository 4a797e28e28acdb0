"""Records in the shapes of docs/design/contracts.md, for the tests of the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

DEVICE = {"name": "Emulated GPU", "uuid": "GPU-0", "memory_bytes": 2**34, "emulated": True}

WAIT_REASONS = [
    {"reason": "behind", "job": "17", "priority": 0, "kernel": "", "p90_us": None, "total_s": 0.009, "count": 80},
    {"reason": "does_not_fit", "job": "17", "priority": 0, "kernel": "gemm_[64]", "p90_us": 5700.0, "total_s": 0.002,
     "count": 4},
    {"reason": "reaction", "job": "12", "priority": 1, "kernel": "", "p90_us": None, "total_s": 0.001, "count": 96},
]  # fmt: skip
DELAYS = [{"job": "18", "priority": 8, "total_s": 0.013, "count": 7}]
REPORT: dict[str, Any] = {
    "format": "fikit-report", "version": 1, "job": "12", "name": "serve", "uid": os.getuid(), "node": "n1", "state": "ended",
    "priority": 1, "priority_name": "high", "measured": False, "policy": "paper", "device": DEVICE,
    "device_mode": "slices",
    "started": "2026-11-21T12:00:00Z", "ended": "2026-11-21T12:00:09Z", "processes": 1,
    "kernels": 1834, "gpu_time_s": 3.21, "span_s": 8.42, "span_alone_s": 8.1, "solo_s": 8.1,
    "elapsed_s": 9.0, "alone_s": 8.658, "waited_s": 0.009, "delayed_s": 0.013, "host_s": 0.3, "unexplained_s": 0.02,
    "pauses_s": 0.5, "host": {"start_s": 0.2, "late_s": 0.1, "end_s": 0.0, "unknown_s": 0.0},
    "slowdown": 1.0395, "no_slowdown": "", "max_slowdown": 0.05, "kept": True, "kept_unknown": "",
    "wait": {"count": 96, "total_s": 0.012, "mean_us": 125.0, "p99_us": 420.0},
    "wait_reasons": WAIT_REASONS, "held": WAIT_REASONS, "delays": DELAYS, "delayed": DELAYS,
    "gaps": {"offered": 1200, "filled": 900, "others_kernels": 2100, "predicted_us": 410.0, "actual_us": 395.5,
             "error_p50_us": 21.0, "error_p90_us": 88.0},
    "memory": {"limit_bytes": 10 * 2**30, "peak_bytes": 9_400_000_000, "refused": 3},
    "expired": 0, "profile": {"key": "classify-0a1b2c3d", "found": True, "stored": None}, "warnings": [],
}  # fmt: skip
MOVED: dict[str, Any] = {  # `memory` of a job with --fikit-mem=8G --fikit-mem-host=16G
    "limit_bytes": 24 * 2**30, "peak_bytes": 22_978_074_214, "refused": 1,
    "moved": {
        "host_limit_bytes": 16 * 2**30, "resident_peak_bytes": 8_482_560_409, "in_bytes": 60 * 2**30, "out_bytes": 36 * 2**30,
        "missed_bytes": 258_000_000, "moving_s": 0.189, "turns": 40, "failures": 2,
        "history": [
            {"t_s": 1.0, "resident_bytes": 8_482_560_409, "others_bytes": 6 * 2**30, "moved_bytes": 8 * 2**30, "turns": 1},
            {"t_s": 3.0, "resident_bytes": 0, "others_bytes": 12 * 2**30, "moved_bytes": 16 * 2**30, "turns": 1},
            {"t_s": 5.0, "resident_bytes": 4 * 2**30, "others_bytes": 6 * 2**30, "moved_bytes": 96 * 2**30, "turns": 40},
        ],
    },
}  # fmt: skip
MEASURED: dict[str, Any] = {
    **REPORT, "job": "run-77-1", "name": "[red]x", "priority": 5, "priority_name": "normal", "measured": True,
    "wait_reasons": [], "held": [], "delays": [], "delayed": [], "span_alone_s": None, "solo_s": None, "slowdown": None, "no_slowdown": "measured", "max_slowdown": 0.05,
    "kept": None, "kept_unknown": "measured", "elapsed_s": 9.0, "alone_s": 9.0, "waited_s": 0.0, "delayed_s": 0.0,
    "host_s": 0.0, "unexplained_s": 0.0, "host": {"start_s": 0.0, "late_s": 0.0, "end_s": 0.0, "unknown_s": 0.0}, "wait": {"count": 0, "total_s": 0.0, "mean_us": 0.0, "p99_us": 0.0},
    "memory": {"limit_bytes": None, "peak_bytes": 123 * 2**20, "refused": 0},
    "expired": 2, "drifted": 3, "warnings": ["profile directory /shared is read-only, the profile was not stored"],
    "profile": {"key": "train-99", "found": False, "stored": None},
}  # fmt: skip
PROFILE: dict[str, Any] = {
    "key": "train-99", "device": DEVICE, "command": ["python3", "train.py"], "runs": 2, "launches": 3000,
    "created": "2026-11-21T12:00:00Z", "variants": 2, "bytes": 71_000,
    "memory": {
        "peak_bytes": 9 << 30, "gpu_bytes": 16 << 30,
        "beside": [
            {"key": "[red]infer-7", "peak_bytes": 2 << 30, "how": "together", "moved_bytes": 0, "moved_s": 0.0, "share": None},
            {"key": "tune-3", "peak_bytes": 8 << 30, "how": "turns", "moved_bytes": 2 << 30, "moved_s": 0.0895, "share": 0.003},
        ],
    },
    "kernels": [
        {"name": "r_16_64", "grid": [4, 4, 1], "block": [64, 1, 1], "count": 1000, "mean_ns": 120e3, "p50_ns": 119e3,
         "p99_ns": 131e3, "gap_ns": 2e3, "total_ns": 120e6},
        {"name": "E_[64]", "grid": [1, 1, 1], "block": [32, 1, 1], "count": 2000, "mean_ns": 15e3, "p50_ns": 15e3,
         "p99_ns": 15e3, "gap_ns": 410e3, "total_ns": 30e6},
    ],
}  # fmt: skip
CHECKS = [
    {"name": "Python", "status": "ok", "found": "3.11.2", "advice": ""},
    {"name": "CUDA driver", "status": "warn", "found": "no GPU here", "advice": "only the emulated GPU can be used"},
    {"name": "gres.conf", "status": "fail", "found": "a GPU line has no Type=", "advice": "add Type="},
]
SUMMARY: dict[str, Any] = {
    "device": {"name": "Emulated GPU (demo)", "emulated": True,
               "sharing": "slices mode: 1,024 us, switch 50 us (assumed), emulated"},
    "max_slowdown": "3%", "slurm_version": "22.05.8",
    "high": {"alone_s": 2.0, "shared_s": 6.0, "fikit_s": 2.2,
             "reports": {
                 "shared": {"elapsed_s": 6.0, "alone_s": 2.0, "waited_s": 0.0, "delayed_s": 4.0, "host_s": 0.0,
                            "unexplained_s": 0.0, "slowdown": 3.0, "apart": 0.0},
                 "fikit": {"elapsed_s": 2.2, "alone_s": 2.01, "waited_s": 0.02, "delayed_s": 0.16, "host_s": 0.01,
                           "unexplained_s": 0.0, "slowdown": 1.0945, "apart": -0.005},
             }},
    "low": {"alone_s": 8.0, "shared_s": 9.5, "fikit_s": 9.7,
            "reports": {
                "shared": {"elapsed_s": 9.5, "alone_s": 8.0, "waited_s": 0.0, "delayed_s": 1.4, "host_s": 0.1,
                           "unexplained_s": 0.0, "slowdown": 1.1875, "apart": 0.0},
                "fikit": {"elapsed_s": 9.7, "alone_s": 8.02, "waited_s": 1.5, "delayed_s": 0.13, "host_s": 0.05,
                          "unexplained_s": 0.0, "slowdown": 1.2095, "apart": -0.0025},
            }},
    "high_slowdown": 1.1, "high_speedup": 2.7273, "low_share": 0.61, "disturbed": "",
}  # fmt: skip


def without_advice(text: str) -> object:
    """What `fikit report --json` says, without what it advises: of one job the record as stored."""
    said = json.loads(text)
    return {key: value for key, value in said.items() if key != "advice"} if isinstance(said, dict) else said


def site_without_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which a site keeps its reports and traces; its fikitd does not run."""
    reports = tmp_path / "reports"
    reports.mkdir()
    config = tmp_path / "fikit.toml"
    config.write_text(
        f'[daemon]\nrun_dir = "{tmp_path}/run"\nreport_dir = "{reports}"\nprofile_dir = "{tmp_path}/profiles"\n'
    )
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    return reports
