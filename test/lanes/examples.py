"""The Python examples of the documentation."""

import re

from lanes import ROOT, Skip, lane, mpi, require

FOLDER = ROOT / "docs" / "python"
PYTHON = "/usr/bin/python3"  # Debian's: its mpi4py is for Debian's Open MPI
ONE_THREAD = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}


def lanes():
    return {"examples": examples, "ddp": ddp}


@lane(gpuar=True)
def examples():
    "docs/python/arrays.py: arrays of numpy by mpi4py"
    for ranks in (2, 3):
        yield f"arrays, {ranks} ranks", lambda ranks=ranks: arrays(ranks)


def arrays(ranks):
    result = mpi.served(ranks, [PYTHON, FOLDER / "arrays.py"], env=ONE_THREAD)
    require(f"{ranks} ranks of numpy: sums right" in result.output, result.tail())


@lane(gpuar=True, takes_long=True)
def ddp():
    "docs/python/ddp.py: PyTorch's DistributedDataParallel over MPI_Iallreduce, gradients as by gloo"
    if mpi.run([PYTHON, "-c", "import torch"], timeout=60).status:
        yield "PyTorch", lambda: skip("PyTorch is not installed; test/run --with-torch installs it")
        return
    for ranks in (2, 3):
        yield f"gradients, {ranks} ranks", lambda ranks=ranks: gradients(ranks)


def skip(why):
    raise Skip(why)


def gradients(ranks):
    mca = {"coll_gpuar_progress_thread": 1}
    result = mpi.served(ranks, [PYTHON, FOLDER / "ddp.py"], mca=mca, env=ONE_THREAD)
    require(re.search(r"10 steps on \d ranks: gradients differ .* at most", result.output), result.tail())
    require(mpi.counters(result.output)[0]["nonblocking"] >= 20, "the gradients went another way")
