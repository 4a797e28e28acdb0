"""A job of the part `slurm`: `python slurm_job.py PROGRAM DEVICE FILE SECONDS`, one request after another.

It writes FILE.ready when the program is warm, begins when FILE.go is there and ends when FILE.stop is. FILE then has each request's begin
and end on CLOCK_MONOTONIC in ns, and the error that ended it, if one did; the process stays for SECONDS after an error. This file stands in a copy of the checkout's programs
that every user can read.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

LONGEST_S = 60.0  # without FILE.stop


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from bench.gpu.sharing import worker  # noqa: PLC0415 - of the copy

    program, device, name, stays_s = sys.argv[1:]
    file, until = Path(name), time.monotonic() + LONGEST_S
    go, stop = Path(f"{name}.go"), Path(f"{name}.stop")
    requests: list[tuple[int, int]] = []
    error = ""
    try:
        request = worker.prepare(program, device)
        worker.warm_up(request)
        Path(f"{name}.ready").touch()
        while not go.exists() and time.monotonic() < until:
            time.sleep(0.005)
        while not stop.exists() and time.monotonic() < until:
            begin = time.monotonic_ns()
            request()
            requests.append((begin, time.monotonic_ns()))
    except Exception as failed:  # whatever the GPU does to it
        error = f"{type(failed).__name__}: {failed}"[:400]
        print(error, file=sys.stderr)
    file.write_text(json.dumps({"requests": requests, "error": error}))
    if error:
        time.sleep(float(stays_s))
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
