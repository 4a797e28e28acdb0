"""A program of the CUDA driver by ctypes that answers one question about MPS: `python -IS mps_client.py MODE [NUMBER ...]`.

The file stands alone: other users run a copy of it. Each line of its output is a JSON object. The first says how the start
went: {"pid", "cuInit", "cuInit_ms", "mps", "open", "open_ms", "stream_ops", "sync"}; a code that is not 0 ends the program.
A line on standard input, or its end, ends `stay`, `alloc`, `hold_value` and `spin`.

    join                 start only
    stay                 stays
    marks                what the shim's markers need: a registered page, WriteValue, WaitValue, event times
    late_env DIR         CUDA_MPS_PIPE_DIRECTORY becomes DIR after the library was loaded, before cuInit
    late_env_ctx DIR     the same between cuInit and cuCtxCreate
    twice DIR            after a cuInit that failed, a second one with CUDA_MPS_PIPE_DIRECTORY = DIR
    alloc GIB            holds so much memory
    hold_value           holds a stream that waits for a word
    spin NS BLOCKS S     kernels of NS in BLOCKS blocks of 1024 threads, four in line, for S seconds
    lone NS S            one kernel of NS at a time for S seconds, with pauses
    trap                 a kernel that traps
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import sys
import time
from collections.abc import Mapping

PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry fikit_spin(.param .u64 ns)
{
 .reg .b64 %now, %end, %ns;
 .reg .pred %early;
 ld.param.u64 %ns, [ns];
 mov.u64 %end, %globaltimer;
 add.u64 %end, %end, %ns;
again:
 mov.u64 %now, %globaltimer;
 setp.lt.u64 %early, %now, %end;
 @%early bra again;
 ret;
}
.visible .entry fikit_trap(.param .u64 ns)
{
 trap;
 ret;
}
\0"""
MPS, STREAM_OPS = 133, 122  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED, ..._CAN_USE_64_BIT_STREAM_MEM_OPS
MAPPED, NON_BLOCKING, GEQ = 2, 1, 0
PAGE_BYTES = 65536
PAUSE_S = 0.0007


class Driver:
    """The first GPU. Calls return the driver's codes."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.spin, self.trap = ctypes.c_void_p(), ctypes.c_void_p()

    def call(self, name: str, *arguments: object) -> int:
        return int(getattr(self.library, name)(*arguments))

    def attribute(self, number: int) -> int:
        """Minus the code where the driver refuses."""
        value = ctypes.c_int(-1)
        code = self.call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        return -code if code else value.value

    def open(self) -> int:
        """A context, the kernels, a stream: the first code that is not 0."""
        module = ctypes.c_void_p()
        return (
            self.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, 0)
            or self.call("cuModuleLoadData", ctypes.byref(module), PTX)
            or self.call("cuModuleGetFunction", ctypes.byref(self.spin), module, b"fikit_spin")
            or self.call("cuModuleGetFunction", ctypes.byref(self.trap), module, b"fikit_trap")
            or self.call("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)
        )

    def launch(self, kernel: ctypes.c_void_p, ns: int, blocks: int = 1, threads: int = 32) -> int:
        value = ctypes.c_uint64(ns)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        return self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, self.stream, parameters, None)

    def wait(self) -> int:
        return self.call("cuStreamSynchronize", self.stream)

    def address(self, host: int) -> ctypes.c_uint64:
        """The device's of registered or allocated host memory."""
        found = ctypes.c_uint64()
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(found), ctypes.c_void_p(host), 0)
        return found


def say(found: Mapping[str, object]) -> None:
    print(json.dumps(found), flush=True)


def told(wait_s: float | None = 0) -> bool:
    """Whether standard input has a line or has ended; None waits."""
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def set_pipe(directory: str) -> None:
    """For the driver, which reads the C library's environment."""
    ctypes.CDLL(None).setenv(b"CUDA_MPS_PIPE_DIRECTORY", directory.encode(), 1)


def start(mode: str, words: list[str]) -> Driver | None:
    """None, with the codes said, where the program cannot go on."""
    driver = Driver()
    said: dict[str, float] = {"pid": os.getpid()}
    if mode == "late_env":
        set_pipe(words[0])
    begin = time.monotonic()
    said["cuInit"] = code = driver.call("cuInit", 0)
    said["cuInit_ms"] = round((time.monotonic() - begin) * 1e3, 2)
    if mode == "twice":
        set_pipe(words[0])
        said["cuInit_again"] = code = driver.call("cuInit", 0)
    if code == 0:
        said["mps"] = driver.attribute(MPS)
        if mode == "late_env_ctx":
            set_pipe(words[0])
        begin = time.monotonic()
        said["open"] = code = driver.open()
        said["open_ms"] = round((time.monotonic() - begin) * 1e3, 2)
    if code == 0:
        said["stream_ops"] = driver.attribute(STREAM_OPS)
        driver.launch(driver.spin, 1000)
        said["sync"] = code = driver.wait()
    say(said)
    return driver if code == 0 else None


def marks(driver: Driver) -> None:
    page = _page()
    host = ctypes.addressof(ctypes.c_char.from_buffer(page))
    register = driver.call("cuMemHostRegister_v2", ctypes.c_void_p(host), ctypes.c_size_t(PAGE_BYTES), MAPPED)
    device = driver.address(host)
    driver.launch(driver.spin, 1_000_000)
    write = driver.call("cuStreamWriteValue32_v2", driver.stream, device, 7, 0)
    early = int.from_bytes(page[:4], "little")
    driver.wait()
    written = int.from_bytes(page[:4], "little")
    hold = driver.call("cuStreamWaitValue32_v2", driver.stream, device, 9, GEQ)
    events = [ctypes.c_void_p() for _ in range(2)]
    for event in events:
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    driver.call("cuEventRecord", events[0], driver.stream)
    driver.launch(driver.spin, 100_000)
    driver.call("cuEventRecord", events[1], driver.stream)
    page[:4] = (9).to_bytes(4, "little")
    code, ms = driver.wait(), ctypes.c_float()
    driver.call("cuEventElapsedTime", ctypes.byref(ms), *events)
    say({
        "register": register, "write_value": write, "early": early, "written": written, "wait_value": hold, "sync": code,
        "event_us_of_100": round(ms.value * 1e3, 2),
    })  # fmt: skip


def _page() -> mmap.mmap:
    descriptor = os.memfd_create("page")
    os.ftruncate(descriptor, PAGE_BYTES)
    return mmap.mmap(descriptor, PAGE_BYTES)


def alloc(driver: Driver, gib: float) -> None:
    at = ctypes.c_uint64()
    say({"alloc": driver.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(int(gib * 2**30)))})
    told(None)
    os._exit(0)  # as a program that ends without freeing


def hold_value(driver: Driver) -> None:
    host = ctypes.c_void_p()
    driver.call("cuMemHostAlloc", ctypes.byref(host), 64, MAPPED)
    word = ctypes.c_uint32.from_address(host.value or 0)
    word.value = 0
    say({"wait_value": driver.call("cuStreamWaitValue32_v2", driver.stream, driver.address(host.value or 0), 1, GEQ)})
    told(None)
    word.value = 1
    driver.wait()


def spin(driver: Driver, ns: int, blocks: int, seconds: float) -> None:
    until, kernels, code, worst = time.monotonic() + seconds, 0, 0, 0.0
    while time.monotonic() < until and not code and not told():
        begin = time.monotonic()
        for _ in range(4):
            code = code or driver.launch(driver.spin, ns, blocks, 1024)
        code = code or driver.wait()
        worst = max(worst, time.monotonic() - begin)
        kernels += 4
    say({"kernels": kernels, "code": code, "worst_ms": round(worst * 1e3, 3)})


def lone(driver: Driver, ns: int, seconds: float) -> None:
    took, until, code = [], time.monotonic() + seconds, 0
    while time.monotonic() < until and not code:
        time.sleep(PAUSE_S)
        begin = time.monotonic_ns()
        code = driver.launch(driver.spin, ns) or driver.wait()
        took.append(round((time.monotonic_ns() - begin) / 1e3, 2))
    took.sort()
    middle = {f"p{part}_us": took[len(took) * part // 100] for part in (50, 90, 99)}
    say({"count": len(took), "code": code, **middle, "most_us": took[-1]})


def trap(driver: Driver) -> None:
    driver.launch(driver.trap, 0)
    say({"trap": driver.wait()})


def main() -> None:
    mode, *words = sys.argv[1:]
    driver = start(mode, words)
    if driver is None:
        return
    if mode == "stay":
        told(None)
    elif mode == "marks":
        marks(driver)
    elif mode == "alloc":
        alloc(driver, float(words[0]))
    elif mode == "hold_value":
        hold_value(driver)
    elif mode == "spin":
        spin(driver, int(words[0]), int(words[1]), float(words[2]))
    elif mode == "lone":
        lone(driver, int(words[0]), float(words[1]))
    elif mode == "trap":
        trap(driver)


if __name__ == "__main__":
    main()
