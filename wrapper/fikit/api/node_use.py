"""How a node's GPUs are used now: the difference of two looks at fikitd's counters (docs/design/contracts.md, `node`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fikitd.api.report_format import MIXED

from fikit.wording.elapsed import PARTS

Look = dict[str, Any]
Client = dict[str, Any]


def between(before: Look, after: Look) -> dict[str, Any]:
    """What `fikit top` shows, and its --json: for each GPU its jobs, the highest priority first.

    device_mode: how its programs share the GPU, as far as one may know; null where nobody tells. device_share: device time of what the job launched meanwhile, as a part of that while; null where not all its kernels
    have been timed. shares: of its elapsed time meanwhile, which parts of it went where, as in its report; null where nobody says it. job_time:
    the same so far, in seconds. harvest: what lower jobs had of the time that the highest left.
    """
    elapsed_s = (after["now_ns"] - before["now_ns"]) / 1e9
    earlier = {client["client"]: client for client in before["clients"]}
    gpus = {gpu["uuid"]: gpu for gpu in after["gpus"]}
    uuids = sorted({*gpus, *(program["gpu"] for program in after["unmanaged"])})
    return {
        "node": after["node"],
        "policy": after["policy"],
        "elapsed_s": elapsed_s,
        "gpus": [
            {
                **gpus.get(uuid, {"uuid": uuid, "name": uuid, "memory_bytes": None, "emulated": False}),
                **_use([c for c in after["clients"] if c["gpu"] == uuid], earlier, elapsed_s),
                "unmanaged": [program["pid"] for program in after["unmanaged"] if program["gpu"] == uuid],
            }
            for uuid in uuids
        ],
    }


def _use(clients: list[Client], earlier: dict[int, Client], elapsed_s: float) -> dict[str, Any]:
    by_job: dict[str, list[Client]] = {}
    for client in clients:
        by_job.setdefault(client["job"], []).append(client)
    jobs = [_job(of_job, earlier, elapsed_s) for of_job in by_job.values()]
    jobs.sort(key=lambda job: (job["priority"], job["job"]))
    share = _sum(job["device_share"] for job in jobs)  # of times that are estimates: more than there is, perhaps
    return {
        "device_share": None if share is None else min(share, 1.0),
        "harvest": _harvest(jobs),
        "device_mode": _together(job.get("device_mode") for job in jobs),
        "jobs": jobs,
    }


def _job(clients: list[Client], earlier: dict[int, Client], elapsed_s: float) -> dict[str, Any]:
    def per_s(key: str) -> float | None:
        grown = _sum(_since(client, earlier.get(client["client"]), key) for client in clients)
        return None if grown is None or elapsed_s <= 0 else grown / elapsed_s

    first = clients[0]
    job: dict[str, Any] = {key: first[key] for key in ("job", "uid", "priority", "priority_name")}
    share = per_s("gpu_time_s")
    job["device_share"] = (
        None if share is None else min(share, 1.0)
    )  # it may have launched more than there was time for
    if "pid" not in first:  # another user's
        return job
    return job | {
        "name": first["name"],
        "auto": first.get("auto"),
        "pids": sorted(client["pid"] for client in clients),
        "shares": _shares(first, earlier.get(first["client"])),
        "job_time": first.get("job_time"),
        "launches_per_s": per_s("kernels"),
        "others_kernels_per_s": per_s("others_kernels"),
        "memory_bytes": sum(client["memory_bytes"] for client in clients),
        "memory_limit_bytes": first["memory_limit_bytes"],
        "memory_on_gpu_bytes": first.get("memory_on_gpu_bytes"),
        "memory_plan": first.get("memory_plan"),
        "device_mode": _together(client.get("device_mode") for client in clients),
    }


def _shares(client: Client, earlier: Client | None) -> dict[str, float] | None:
    """Of the time that passed for the client's job. What is known later of earlier time may make a part less: then it is none."""
    now = client.get("job_time")
    then = {} if earlier is None else earlier.get("job_time")
    if now is None or then is None or (elapsed_s := now["elapsed_s"] - then.get("elapsed_s", 0.0)) <= 0:
        return None
    grown = {word: max(now[key] - then.get(key, 0.0), 0.0) / elapsed_s for key, word in PARTS.items()}
    most = max(sum(grown.values()), 1.0)
    shares = {word: share / most for word, share in grown.items()}
    return {"alone": max(1.0 - sum(shares.values()), 0.0), **shares}


def _since(client: Client, earlier: Client | None, key: str) -> float | None:
    """How much a counter grew; all of it for a client that came meanwhile."""
    now = client[key]
    then = 0.0 if earlier is None else earlier.get(key)
    return None if now is None or then is None else max(now - then, 0.0)  # an estimate may be corrected downwards


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one of them is not known."""
    known = list(values)
    return None if any(value is None for value in known) else float(sum(value for value in known if value is not None))


def _harvest(jobs: list[dict[str, Any]]) -> float | None:
    """None where nothing is below anything, or where nobody can say."""
    if not jobs or jobs[-1]["priority"] == jobs[0]["priority"]:
        return None
    highest = _sum(job["device_share"] for job in jobs if job["priority"] == jobs[0]["priority"])
    lower = _sum(job["device_share"] for job in jobs if job["priority"] != jobs[0]["priority"])
    if highest is None or lower is None or highest >= 1.0:
        return None
    return min(lower / (1.0 - highest), 1.0)


def _together(modes: Iterable[str | None]) -> str | None:
    """That of several programs; None where none of them tells."""
    known = set(modes) - {None}
    return known.pop() if len(known) == 1 else MIXED if known else None
