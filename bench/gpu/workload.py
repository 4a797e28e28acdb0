"""One program under test: prepares a model, says `ready`, does requests when told, prints what each took as JSON.

A script of its own, because fikit sees programs: `python bench/gpu/workload.py NAME [--seconds S] [--until-told] [--count]`.
It reads `go` from stdin before its first request, so that two of them can begin together; with --until-told it goes on until
stdin ends. --count lets PyTorch's profiler count the launches from the first CUDA call on, to be compared with fikit's count.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Request = Callable[[], None]  # does one request and returns when the device has finished it
WARM_UP = 5
LAUNCHING_CALLS = ("LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch")  # of the runtime's and the driver's names


def resnet50() -> Request:
    """Eager inference of one picture: short kernels, the host is late."""
    import torch
    import torchvision

    model, picture = torchvision.models.resnet50().cuda().eval(), torch.randn(1, 3, 224, 224, device="cuda")

    def request() -> None:
        with torch.no_grad():
            model(picture)
        torch.cuda.synchronize()

    return request


def bert() -> Request:
    """Eager inference of one sentence on the default stream."""
    import torch
    import transformers

    model = transformers.BertModel(transformers.BertConfig()).cuda().eval()
    words = torch.randint(0, 30000, (1, 128), device="cuda")

    def request() -> None:
        with torch.no_grad():
            model(words)
        torch.cuda.synchronize()

    return request


def train() -> Request:
    """A training step of ResNet-50 with 64 pictures: long kernels, the host runs ahead."""
    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def request() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()

    return request


def cuda_graph() -> Request:
    """ResNet-50's inference captured once, launched as one graph."""
    import torch
    import torchvision

    model, picture = torchvision.models.resnet50().cuda().eval(), torch.randn(1, 3, 224, 224, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(picture)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(picture)

    def request() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return request


def compiled() -> Request:
    """torch.compile: Triton kernels, launched by generated code through the driver."""
    import torch

    layers = [
        torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512)) for _ in range(6)
    ]
    model = torch.compile(torch.nn.Sequential(*layers).cuda().eval())
    rows = torch.randn(256, 512, device="cuda")

    def request() -> None:
        with torch.no_grad():
            model(rows)
        torch.cuda.synchronize()

    return request


def triton() -> Request:
    """A Triton kernel of one's own, eighty launches."""
    import torch
    import triton_add

    x = torch.zeros(1 << 20, device="cuda")
    y = torch.empty_like(x)

    def request() -> None:
        for _ in range(80):
            triton_add.add_one[(x.numel() // 1024,)](x, y, x.numel(), BLOCK=1024)
        torch.cuda.synchronize()

    return request


def libraries() -> Request:
    """cuBLAS and cuDNN, which carry a CUDA runtime of their own inside."""
    import torch

    a = torch.randn(1024, 1024, device="cuda")
    images, weights = torch.randn(8, 64, 56, 56, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")

    def request() -> None:
        for _ in range(10):
            torch.mm(a, a)
            torch.nn.functional.conv2d(images, weights, padding=1)
        torch.cuda.synchronize()

    return request


def cupy() -> Request:
    """CuPy: its own kernels by NVRTC, elementwise and a reduction."""
    import cupy

    x = cupy.ones(1 << 20, dtype=cupy.float32)

    def request() -> None:
        for _ in range(20):
            (x * 2 + 1).sum()
        cupy.cuda.Device().synchronize()

    return request


def jax() -> Request:
    """JAX: a compiled function, launched by XLA."""
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda x: jnp.tanh(x @ x).sum(axis=0))
    x = jnp.ones((512, 512))

    def request() -> None:
        step(x).block_until_ready()

    return request


def tinygrad() -> Request:
    """A small network through tinygrad: the one that also runs on the emulated GPU."""
    from tinygrad import Tensor, TinyJit  # type: ignore[attr-defined]

    weights = [Tensor.rand(64, 64).realize() for _ in range(4)]

    @TinyJit
    def forward(x: Any) -> Any:
        for weight in weights:
            x = (x @ weight).relu()
        return x.realize()

    x = Tensor.rand(16, 64).realize()

    def request() -> None:
        forward(x).numpy()

    return request


WORKLOADS: dict[str, Callable[[], Request]] = {
    make.__name__: make
    for make in (resnet50, bert, train, cuda_graph, compiled, triton, libraries, cupy, jax, tinygrad)
}


def _profiler(count: bool) -> Any:
    """PyTorch's profiler, started before the first CUDA call; None without --count."""
    if not count:
        return None
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True)
    profiler.start()
    return profiler


def _launches(profiler: Any) -> int | None:
    if profiler is None:
        return None
    profiler.stop()
    return sum(any(part in event.name for part in LAUNCHING_CALLS) for event in profiler.events())


def _wait_for_end(told: threading.Event) -> None:
    sys.stdin.read()
    told.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--until-told", action="store_true")
    parser.add_argument("--count", action="store_true")
    arguments = parser.parse_args()

    profiler = _profiler(arguments.count)
    request = WORKLOADS[arguments.name]()
    for _ in range(WARM_UP):
        request()
    print("ready", flush=True)
    sys.stdin.readline()

    told = threading.Event()
    if arguments.until_told:
        threading.Thread(target=_wait_for_end, args=(told,), daemon=True).start()
    took_ns: list[int] = []
    begin = now = time.monotonic_ns()
    while not told.is_set() and (arguments.until_told or now - begin < arguments.seconds * 1e9):
        request()
        took_ns.append(time.monotonic_ns() - now)
        now = time.monotonic_ns()
    result = {"began_ns": begin, "ended_ns": now, "requests_ns": took_ns, "launches": _launches(profiler)}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
