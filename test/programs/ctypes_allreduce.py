"""An allreduce through ctypes: libmpi is opened with RTLD_LOCAL, ctypes' default."""

import ctypes
import ctypes.util

name = ctypes.util.find_library("mpi") or "libmpi.so.40"
libmpi = ctypes.CDLL(name, mode=ctypes.DEFAULT_MODE)


def handle(symbol):
    """Open MPI's predefined handles are addresses of objects in the library."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(libmpi, symbol)))


world = handle("ompi_mpi_comm_world")
assert libmpi.MPI_Init(None, None) == 0
rank, size = ctypes.c_int(), ctypes.c_int()
libmpi.MPI_Comm_rank(world, ctypes.byref(rank))
libmpi.MPI_Comm_size(world, ctypes.byref(size))
count = 1000
mine = (ctypes.c_double * count)(*(rank.value + i for i in range(count)))
total = (ctypes.c_double * count)()
code = libmpi.MPI_Allreduce(
    mine, total, count, handle("ompi_mpi_double"), handle("ompi_mpi_op_sum"), world
)
assert code == 0, code
ranks = size.value
expected = [ranks * (ranks - 1) / 2 + ranks * i for i in range(count)]
assert list(total) == expected, "wrong sum"
assert libmpi.MPI_Finalize() == 0
