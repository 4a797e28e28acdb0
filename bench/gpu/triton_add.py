"""A Triton kernel. A module of its own: Triton finds the names that a kernel uses among its module's globals."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def add_one(x_ptr, y_ptr, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """y = x + 1."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1.0, mask=mask)
