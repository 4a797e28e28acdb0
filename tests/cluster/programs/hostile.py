"""What a user may try against fikitd and its neighbours from inside a job. Needs nothing but Python; prints one line per try.

hostile.py RUN_DIR HELLOS VICTIM SECONDS: HELLOS are a shim's first packets (hexadecimal, with commas) for the node's GPUs in Slurm's
order, VICTIM another user's job.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import socket
import sys
import time

RUN_DIR, VICTIM, SECONDS = sys.argv[1], sys.argv[3], float(sys.argv[4])
HELLO = bytes.fromhex(sys.argv[2].split(",")[int(os.environ.get("SLURM_STEP_GPUS") or os.environ["SLURM_JOB_GPUS"])])
ANSWER_S = 5.0
WELCOME = 2


def connect(name: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(ANSWER_S)
    made.connect(f"{RUN_DIR}/{name}")
    return made


def closed(client: socket.socket) -> bool:
    """Whether fikitd hangs up."""
    try:
        return client.recv(4096) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def welcomed() -> tuple[socket.socket, list[int]]:
    client = connect("fikitd.sock")
    client.send(HELLO)
    packet, descriptors, _, _ = socket.recv_fds(client, 4096, 8)
    assert int.from_bytes(packet[:4], "little") == WELCOME, packet
    return client, list(descriptors)


def control(request: bytes) -> str:
    try:
        asked = connect("control.sock")
        asked.send(request)
        return asked.recv(65536).decode(errors="replace")
    except OSError as error:
        return f"error {error.strerror}"


def say(what: str, held: bool) -> None:
    print(f"{'held' if held else 'BROKEN'}: {what}", flush=True)


def messages() -> None:
    replayed, _ = welcomed()
    replayed.send(HELLO)
    say("a hello is replayed on its own connection", closed(replayed))
    os.environ["SLURM_JOB_ID"] = os.environ["SLURM_JOBID"] = VICTIM
    other, _ = welcomed()
    say("a forged job id leads to no other job", f'"{VICTIM}"' not in control(b"jobs"))
    other.close()
    for length in (0, 1, 7, 8, len(HELLO) - 1):
        client = connect("fikitd.sock")
        client.send(HELLO[:length])
        say(f"a hello of {length} bytes", closed(client))
    for length in (4096, 65536, 150_000):
        client = connect("fikitd.sock")
        with contextlib.suppress(OSError):  # the kernel refuses the largest
            client.send(HELLO.ljust(length, b"\xff"))
            say(f"a hello of {length} bytes", closed(client))
    for _ in range(50):
        client, _ = welcomed()
        client.send(random.randbytes(random.randrange(1, 3000)))
        client.close()


def requests() -> None:
    for request in (f"end {VICTIM}", f"job {VICTIM}", f"trace {VICTIM}", f"summary {VICTIM} batch", "shutdown", "end",
                    "jobs " + "x" * 5000, "\0\n\r", "ping " * 200):  # fmt: skip
        answer = control(request.encode())
        say(f"control request {request[:20]!r}: {answer[:60]!r}", answer == "" or answer.startswith("error "))


def files() -> None:
    for path in (f"jobs/{VICTIM}", f"jobs/{os.getpid()}", "ledger/x", "fikitd.sock"):
        try:
            os.close(os.open(f"{RUN_DIR}/{path}", os.O_WRONLY | os.O_CREAT))
            say(f"{path} cannot be written", False)
        except OSError:
            say(f"{path} cannot be written", True)


def page() -> None:
    client, descriptors = welcomed()
    maps = []
    doorbells = []
    for number in descriptors:
        try:
            maps.append(mmap.mmap(number, os.fstat(number).st_size))
        except (OSError, ValueError):
            doorbells.append(number)
    end = time.monotonic() + SECONDS
    writes = 0
    while time.monotonic() < end:
        for map_ in maps:
            length = random.randrange(1, 512)
            at = random.randrange(len(map_) - length)
            map_[at : at + length] = random.randbytes(length)
        for doorbell in doorbells:
            with contextlib.suppress(OSError):
                os.eventfd_write(doorbell, 1)
        writes += 1
        time.sleep(0.0005)
    say(f"garbage in {len(maps)} pages", bool(maps) and writes > 0)
    for number in descriptors:
        for size in (0, 1 << 40):
            try:
                os.ftruncate(number, size)
                say("a page keeps its size", False)
            except OSError:
                say("a page keeps its size", True)
    for map_ in maps:
        map_.close()
    for number in descriptors:
        os.close(number)
    time.sleep(0.2)
    say("without its pages the client is still connected", not closed_now(client))


def closed_now(client: socket.socket) -> bool:
    client.settimeout(0.1)
    return closed(client)


random.seed(7)
messages()
requests()
files()
page()
print("tried everything", flush=True)
