"""Hosts that open libmpi privately, as Python's ctypes does."""

import sys

from lanes import ROOT, lane, mpi


def lanes():
    return {"ctypes": private_libmpi}


@lane(gpuar=True)
def private_libmpi():
    "Python opens libmpi by ctypes with RTLD_LOCAL: the component loads and serves all the same"
    program = ROOT / "test" / "programs" / "ctypes_allreduce.py"
    yield "Allreduce", lambda: mpi.served(2, [sys.executable, "-B", program])
