"""A program of dpctl that uses restride: USM filled on a queue, reordered after that, and read.

    python examples/sycl_queue.py

needs `pip install 'restride[sycl]'`, which includes a SYCL device for any x86 CPU. Output on a CPU:

    device: AMD EPYC
    kernel: jit:spirv:strided
    quantized: complete, 262144 bytes of s8 nChw16c
    back on the host: right
"""

import dpctl
import dpctl.memory
import numpy as np

import restride as rs

engine = rs.Engine("sycl")
device, context = rs.sycl_interop.get_device(engine), rs.sycl_interop.get_context(engine)
queue = dpctl.SyclQueue(context, device)  # out of order
stream = rs.sycl_interop.make_stream(engine, queue)
print("device:", device.name)

x = np.random.default_rng(0).random((8, 17, 32, 32), np.float32)
plain = rs.MemoryDesc(x.shape, "f32", "nchw")
blocked = rs.MemoryDesc(x.shape, "s8", "nChw16c")
usm = dpctl.memory.MemoryUSMDevice(plain.size, queue=queue)
src = rs.sycl_interop.make_memory(plain, engine, usm)
dst = rs.sycl_interop.make_memory(blocked, engine, "shared")
back = rs.Memory(plain, engine)

attr = rs.onednn.PrimitiveAttr()
attr.set_output_scales(0, [127.0])
there, home = rs.onednn.Reorder(src, dst, attr), rs.onednn.Reorder(dst, back)
print("kernel:", there.get_primitive_desc().impl_info_str)

# Nothing but `deps` orders these three.
filled = queue.memcpy_async(usm, x, x.nbytes)
first = there.execute_sycl(stream, src, dst, deps=[filled])
last = home.execute_sycl(stream, dst, back, deps=[first])

first.wait()
state = str(first.execution_status).rpartition(".")[2]
print(f"quantized: {state}, {dst.data.nbytes} bytes of s8 nChw16c")
last.wait()
right = np.array_equal(back.to_numpy(), np.rint(x * np.float32(127)))
print("back on the host:", "right" if right else "wrong")
