"""Programs that lean on allreduce, as Debian ships them: each runs with stock Open MPI and with
gpuar, and both must give the same numbers."""

import math
import os
import re
import shutil
import tempfile
from functools import partial
from pathlib import Path

from lanes import ROOT, Skip, lane, mpi, require

PROGRAMS = ROOT / "test" / "programs"
PYTHON = "/usr/bin/python3"  # Debian's: its mpi4py is for Debian's Open MPI

# Integers must be equal. Floating-point sums may associate differently in another library, and
# solvers and molecules carry that on.
RELATIVE = 1e-8
ABSOLUTE = 1e-10

ONE_THREAD = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}


def lanes():
    return {"programs": programs}


@lane(gpuar=True)
def programs():
    "LAMMPS, mpi4py, PETSc and HPC Challenge: the same numbers as with stock Open MPI"
    for np in (2, 4):
        for name, code in (
            ("LAMMPS", lammps),
            ("mpi4py", mpi4py),
            ("PETSc", petsc),
            ("HPC Challenge", hpcc),
        ):
            yield f"{name}, {np} ranks", partial(same_numbers, code, np)


def same_numbers(code, np):
    """`code(np, execute)` runs a program by calling execute(argv, …) and returns its numbers, a
    dict from name to list."""
    compare(code(np, partial(execute, np, "stock")), code(np, partial(execute, np, "gpuar")))


def compare(expected, found):
    """Fails the test unless the numbers of a run with gpuar are those of stock Open MPI."""
    require(expected, "the program printed no numbers")
    require(
        found.keys() == expected.keys(),
        f"numbers differ in name: {sorted(found.keys() ^ expected.keys())}",
    )
    for name, numbers in expected.items():
        require(
            len(found[name]) == len(numbers) and all(map(close, found[name], numbers)),
            f"{name} is {found[name]} with gpuar and {numbers} with stock "
            f"(tolerance {RELATIVE} relative, {ABSOLUTE} absolute)",
        )


def close(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def execute(np, component, argv, *, blocking, nonblocking=0, env=None, cwd=None):
    """Runs the program and returns its output. With gpuar every rank must have been served; at
    least as many calls as the program is known to make."""
    result = mpi.mpirun(np, argv, component, env=ONE_THREAD | (env or {}), cwd=cwd)
    mpi.succeed(result, f"{argv[0]} with {component}")
    if component == "gpuar":
        for rank, count in mpi.check_served(np, result).items():
            require(
                count["blocking"] >= blocking and count["nonblocking"] >= nonblocking,
                f"rank {rank} served {count['blocking']} blocking and {count['nonblocking']} "
                f"nonblocking calls, of at least {blocking} and {nonblocking}",
            )
    return result.output


def number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)


def results(output):
    """The numbers of our own scripts: lines "result NAME NUMBER…"."""
    lines = re.findall(r"^result (\S+) (.+)$", output, re.MULTILINE)
    return {name: [number(word) for word in words.split()] for name, words in lines}


def lammps(np, execute):
    """About 100 reductions of 1 to 10 doubles (sum), 60 of integers (sum, maximum, minimum)."""
    require_program("lmp", "lammps")
    argv = ["lmp", "-in", PROGRAMS / "melt.in", "-log", "none"]
    output = execute(argv, blocking=150)
    table = re.search(r"^Step (.*)\n([\s\S]*?)^Loop time", output, re.MULTILINE)
    require(table, "LAMMPS printed no table of thermodynamic output")
    columns = len(table[1].split())
    rows = [line.split() for line in table[2].splitlines()]
    rows = [row for row in rows if len(row) == columns + 1 and row[0].isdigit()]
    require(len(rows) == 11, f"LAMMPS printed {len(rows)} lines of thermodynamic output, not 11")
    return {f"step {row[0]}": [number(word) for word in row[1:]] for row in rows}


def mpi4py(np, execute):
    """Buffers of many types up to 1.6 MB, in place, nonblocking, own operations, own types."""
    require_module("mpi4py", "python3-mpi4py")
    return results(execute([PYTHON, PROGRAMS / "mpi4py_calls.py"], blocking=700, nonblocking=63))


def petsc(np, execute):
    """Thousands of sums of 1 to 30 doubles, blocking and nonblocking; own operations on own
    types in the assembly of matrices."""
    # Debian keeps one folder per build of PETSc; the real-valued one is wanted.
    folders = sorted(Path("/usr/lib/petscdir").glob("petsc*/*-real"))
    folders = [folder for folder in folders if (folder / "lib/python3").exists()]
    if not folders:
        raise Skip("petsc4py is not installed (Debian package python3-petsc4py)")
    env = {"PETSC_DIR": folders[-1]}
    argv = [PYTHON, PROGRAMS / "petsc_poisson.py"]
    return results(execute(argv, blocking=1600, nonblocking=170, env=env))


def hpcc(np, execute):
    """Hundreds of maxima of integers, and own operations, among all kinds of other traffic."""
    require_program("hpcc", "hpcc")
    rows, columns = (1, 2) if np == 2 else (2, 2)
    with tempfile.TemporaryDirectory(prefix="gpuar-hpcc-") as folder:
        text = (PROGRAMS / "hpccinf.txt").read_text()
        (Path(folder) / "hpccinf.txt").write_text(text.format(rows=rows, columns=columns))
        execute(["hpcc"], blocking=500, cwd=folder)
        output = (Path(folder) / "hpccoutf.txt").read_text()
    # Sizes, norms and errors; what is left out are times and rates.
    wanted = r"^(Success|\w+_(?:N|n|\w+norm\w*|Errors|ErrorsFraction|ExeUpdates|residual))=(\S+)$"
    numbers = {name: [number(word)] for name, word in re.findall(wanted, output, re.MULTILINE)}
    require(numbers.get("Success") == [1], "HPC Challenge says that it did not succeed")
    for name in ("PTRANS_residual", "MPIRandomAccess_Errors", "MPIRandomAccess_LCG_Errors"):
        require(numbers[name] == [0], f"HPC Challenge says {name} = {numbers[name][0]}, not 0")
    return numbers


def require_program(name, package):
    if not shutil.which(name):
        raise Skip(f"{name} is not installed (Debian package {package})")


def require_module(name, package):
    if not os.path.exists(PYTHON) or mpi.run([PYTHON, "-c", f"import {name}"], timeout=60).status:
        raise Skip(f"{name} is not installed (Debian package {package})")
