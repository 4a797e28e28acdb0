"""An unmodified cuda.core program: a kernel from PTX, launched through cuLaunchKernelEx with a CUkernel handle."""

from cuda.core import Device, LaunchConfig, ObjectCode, launch

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry emu_increment(.param .u64 p)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
"""

device = Device(0)
device.set_current()
stream = device.create_stream()
kernel = ObjectCode.from_ptx(PTX).get_kernel("emu_increment")
buffer = device.allocate(4, stream=stream)
for _ in range(50):
    launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer)
stream.sync()
print("done")
