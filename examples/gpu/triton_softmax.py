"""A Triton kernel of one's own, forty launches a request: compiled when it first runs, launched through the driver.

An ordinary program of PyTorch and Triton: it knows nothing about fikit. Without a GPU: TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def softmax(x_ptr, y_ptr, columns, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """A row of y = softmax(a row of x)."""
    offsets = tl.arange(0, WIDTH)
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + offsets, mask=offsets < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + offsets, e / tl.sum(e, axis=0), mask=offsets < columns)


def prepare(device: str) -> Callable[[], torch.Tensor]:
    rows, columns, times = (8192, 1024, 40) if device == "cuda" else (4, 64, 2)
    torch.manual_seed(0)
    x = torch.randn(rows, columns, device=device)
    y = torch.empty_like(x)

    def request() -> torch.Tensor:
        for _ in range(times):
            softmax[(rows,)](x, y, columns, WIDTH=columns)
        if device == "cuda":
            torch.cuda.synchronize()
        return y

    return request


if __name__ == "__main__":
    from pace import show

    show(prepare, "requests")
