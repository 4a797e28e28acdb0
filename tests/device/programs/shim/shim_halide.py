"""An unmodified Halide program: a pipeline compiled to PTX at run time, the default stream, the context pushed around each call."""

import sys

import halide as hl

x, y, inner_x, inner_y = (hl.Var(name) for name in ("x", "y", "inner_x", "inner_y"))
plane = hl.Func("plane")
plane[x, y] = x + y * 2
plane.gpu_tile(x, y, inner_x, inner_y, 16, 16)
target = hl.get_host_target().with_feature(hl.TargetFeature.CUDA)
plane.compile_jit(target)
for _ in range(30):
    image = plane.realize([256, 256], target)
    image.copy_to_host()
print(sum(image[i, i] for i in range(256)), file=sys.stderr)
print("done")
