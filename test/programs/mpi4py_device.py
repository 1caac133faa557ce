"""mpi4py on simulated device memory, as CuPy or PyTorch would pass it: objects that show
__cuda_array_interface__. All forms of the call, in place and apart, several types, host and device
mixed."""

import ctypes

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
driver = ctypes.CDLL("libcuda.so.1")


def check(result, what):
    assert result == 0, f"{what} gives CUDA error {result}"


def start_driver():
    """The primary context of the first device becomes current, as the CUDA runtime does."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(driver.cuInit(0), "cuInit")
    check(driver.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "retaining the context")
    check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")


class DeviceArray:
    """A contiguous array in device memory."""

    def __init__(self, values):
        self.dtype, self.shape, self.nbytes = values.dtype, values.shape, values.nbytes
        self.address = ctypes.c_uint64()
        check(driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(self.nbytes)), "alloc")
        values = np.ascontiguousarray(values)
        source = ctypes.c_void_p(values.ctypes.data)
        check(driver.cuMemcpyHtoD_v2(self.address, source, ctypes.c_size_t(self.nbytes)), "copy up")
        check(driver.cuCtxSynchronize(), "cuCtxSynchronize")

    def __del__(self):
        check(driver.cuMemFree_v2(self.address), "cuMemFree")

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address.value, False),
            "version": 3,
        }

    def get(self):
        values = np.empty(self.shape, self.dtype)
        to = ctypes.c_void_p(values.ctypes.data)
        check(driver.cuMemcpyDtoH_v2(to, self.address, ctypes.c_size_t(self.nbytes)), "copy down")
        return values


def data(of_rank, count, dtype):
    return np.random.default_rng(100 * of_rank + count).integers(1, 50, count).astype(dtype)


def total(count, dtype):
    return sum(data(r, count, dtype) for r in range(size))


def blocking(send, receive):
    world.Allreduce(send, receive, op=MPI.SUM)


def nonblocking(send, receive):
    world.Iallreduce(send, receive, op=MPI.SUM).Wait()


def persistent(send, receive):
    request = allreduce_init(send, receive)
    request.Start()
    request.Wait()
    request.Free()


def allreduce_init(send, receive):
    """mpi4py has it from version 4 on, over an MPI of version 4; else Open MPI 4.1's own is called."""
    if hasattr(world, "Allreduce_init") and MPI.Get_version() >= (4, 0):
        return world.Allreduce_init(send, receive, op=MPI.SUM)

    def handle(of):
        return ctypes.c_void_p.from_address(MPI._addressof(of))

    def address(buffer):
        in_place = ctypes.c_void_p(1)  # Open MPI's MPI_IN_PLACE
        return in_place if buffer is MPI.IN_PLACE else ctypes.c_void_p(buffer.address.value)

    request = MPI.Prequest()
    status = ctypes.CDLL("libmpi.so.40").MPIX_Allreduce_init(
        address(send),
        address(receive),
        ctypes.c_int(receive.shape[0]),
        handle(MPI._typedict[receive.dtype.char]),
        handle(MPI.SUM),
        handle(world),
        handle(MPI.INFO_NULL),
        ctypes.c_void_p(MPI._addressof(request)),
    )
    assert status == 0, f"MPIX_Allreduce_init gives {status}"
    return request


forms = [blocking, nonblocking, persistent]


def every_form():
    for form in forms:
        for dtype in (np.int32, np.float32, np.float64, np.complex128):
            for count in (1, 1000, 50_001):
                mine = data(rank, count, dtype)
                empty = np.zeros(count, dtype)
                apart = DeviceArray(empty)
                form(DeviceArray(mine), apart)
                assert np.array_equal(apart.get(), total(count, dtype)), (form, dtype, count)
                in_place = DeviceArray(mine)
                form(MPI.IN_PLACE, in_place)
                assert np.array_equal(in_place.get(), total(count, dtype)), (form, dtype, count)


def mixed_with_host():
    mine = data(rank, 5000, np.float64)
    on_host = np.zeros(5000)
    blocking(DeviceArray(mine), on_host)
    assert np.array_equal(on_host, total(5000, np.float64))
    on_device = DeviceArray(np.zeros(5000))
    blocking(mine, on_device)
    assert np.array_equal(on_device.get(), total(5000, np.float64))


def several_at_once():
    inputs = [DeviceArray(data(rank, 1 + 999 * i, np.int64)) for i in range(10)]
    outputs = [DeviceArray(np.zeros(1 + 999 * i, np.int64)) for i in range(10)]
    requests = [world.Iallreduce(i, o, op=MPI.SUM) for i, o in zip(inputs, outputs)]
    MPI.Request.Waitall(requests)
    for i, output in enumerate(outputs):
        assert np.array_equal(output.get(), total(1 + 999 * i, np.int64)), i


start_driver()
every_form()
mixed_with_host()
several_at_once()
if rank == 0:
    print("forms", *(form.__name__ for form in forms))
