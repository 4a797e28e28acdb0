"""Programs of other frameworks under fikit: do they run, and does fikit see their launches?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

from bench.gpu.place import Place
from bench.gpu.service import Service
from bench.gpu.sharing import crew
from bench.gpu.sharing.crew import Worker
from bench.record import BenchError

Found = dict[str, Any]


def frameworks(place: Place, deadline: float) -> Iterator[tuple[str, Found]]:
    with ExitStack() as stack:
        service = Service(place)
        stack.callback(service.stop)
        service.use("budget")
        for name in ("cupy_sums", "jax_steps", "compiled"):
            if time.monotonic() + 15 > deadline:
                yield name, {"error": "the time was over"}
                continue
            try:
                worker = Worker(name, place, "cuda", service.env, service.managed([], "--priority", "low"))
            except BenchError as error:
                yield name, {"error": str(error)}
                continue
            try:
                crew.load({"a.all": worker}, {"a.all": [name]}, min(deadline, time.monotonic() + 60))
                if name in worker.errors:
                    raise BenchError(worker.errors[name])
                report = service.report(worker.pid)
                yield name, {"kernels": report["kernels"] if report else 0, **worker.loaded[name]}
            except BenchError as error:
                yield name, {"error": str(error)}
            finally:
                with suppress(BenchError):
                    worker.end()
