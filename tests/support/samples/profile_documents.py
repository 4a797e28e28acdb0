"""The document of one process's profile, made up."""

from __future__ import annotations

from typing import Any

from daemon_fakes import kernel
from fikitd.profiles import profile_store


def document(key: str = "net", name: str = "GPU A", created: str = "2026-11-21T12:00:00Z", **facts: Any) -> Any:
    device = {"name": name, "memory_bytes": 2**34, "emulated": True}
    made = profile_store.document(
        key=key,
        command=["python3", "x.py"],
        created=created,
        device=device,
        span_ns=10,
        peak_bytes=2**20,
        launches=1,
        kernels=[kernel()],
    )
    return {**made, **facts}
