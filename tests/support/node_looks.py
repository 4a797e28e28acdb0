"""Answers to the `node` verb as a fikitd gives them, made up: `look` is one, of these clients at this moment."""

from __future__ import annotations

from typing import Any

GPU = {"uuid": "GPU-a", "name": "H200", "memory_bytes": 141 * 2**30, "emulated": False}


def client(number: int, job: str = "12", priority: int = 1, **facts: Any) -> dict[str, Any]:
    names = {1: "high", 8: "low"}
    return {
        "client": number, "gpu": "GPU-a", "job": job, "uid": 0, "priority": priority, "priority_name": names[priority],
        "gpu_time_s": 0.0, "name": "serve", "pid": 100 + number, "kernels": 0, "others_kernels": 0,
        "memory_bytes": 2**30, "memory_limit_bytes": None, **facts,
    }  # fmt: skip


def spent(elapsed: float, slowdown: float | None = None, **parts: float) -> dict[str, Any]:
    rest = elapsed - sum(parts.values())
    return {
        "elapsed_s": elapsed, "alone_s": rest, "waited_s": 0.0, "delayed_s": 0.0, "host_s": 0.0, "unexplained_s": 0.0,
        "slowdown": slowdown, "max_slowdown": 0.05, **parts,
    }  # fmt: skip


def strangers(number: int, job: str, priority: int, gpu_time_s: float | None) -> dict[str, Any]:
    public = ("client", "gpu", "job", "uid", "priority", "priority_name", "gpu_time_s")
    whole = client(number, job, priority, gpu_time_s=gpu_time_s)
    return {key: whole[key] for key in public}


def look(at_s: float, *clients: dict[str, Any], unmanaged: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "node": "n1", "policy": "budget", "now_ns": round(at_s * 1e9), "gpus": [GPU] if clients else [],
        "clients": list(clients), "unmanaged": list(unmanaged),
    }  # fmt: skip
