"""An unmodified Dr.Jit program: kernels compiled to PTX at run time, a stream of each thread's own, the context pushed around each call."""

import sys

import drjit as dr
from drjit.cuda import Float

for step in range(40):
    x = dr.arange(Float, 4096) * float(step)
    y = dr.sin(x) + dr.sqrt(x)
    dr.eval(y)
dr.sync_thread()
print(float(y.numpy().sum()), file=sys.stderr)
print("done")
