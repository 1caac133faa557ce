"""Allreduce of arrays from Python: blocking, in place, and nonblocking beside a computation.

    mpirun -n 2 --mca coll gpuar python3 docs/python/arrays.py

Arrays of CuPy work the same way, in the memory of their GPU: they offer it to mpi4py as they are.
"""

import sys

from mpi4py import MPI

if "--cupy" in sys.argv:
    import cupy as xp
else:
    import numpy as xp

comm = MPI.COMM_WORLD


def finished():
    """Work on a GPU is queued: MPI wants it done."""
    if xp.__name__ == "cupy":
        xp.cuda.get_current_stream().synchronize()


mine = xp.full(100_000, comm.rank + 1, dtype="f4")
total = xp.empty_like(mine)
finished()

comm.Allreduce(mine, total, op=MPI.SUM)
expected = comm.size * (comm.size + 1) / 2
assert bool((total == expected).all())

comm.Allreduce(MPI.IN_PLACE, mine, op=MPI.MAX)
assert bool((mine == comm.size).all())

request = comm.Iallreduce(mine, total, op=MPI.SUM)
norm = float(xp.sqrt((mine * mine).sum()))  # meanwhile; `mine` may be read
request.Wait()
assert bool((total == comm.size * comm.size).all())

if comm.rank == 0:
    print(f"{comm.size} ranks of {xp.__name__}: sums right, norm {norm:.1f}")
