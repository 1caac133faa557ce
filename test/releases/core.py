"""What is run in a root of another release: the core of the MPI lanes, and what newer Open MPI brings.
Run there as `python3 -m releases.core FORM`, with the MPI programs built."""

import re
import shutil
import sys
from pathlib import Path

from lanes import BUILD, Skip, mpi, mpi_agreement, mpi_semantics, require
from lanes import selection as selections
from lanes.__main__ import Report

SHORT = (
    ("buffers", 2, ["counts=150", "power=17"]),
    ("user_ops", 3, []),
    ("requests", 4, []),
    ("communicators", 3, ["duplicates", "nonblocking_duplicates", "splits", "intercommunicator"]),
    ("first_call", 3, ["persistent_large"]),
)
PROGRAMS = (
    *SHORT,
    ("communicators", 3, []),
    ("predefined", 2, []),
    ("threads", 2, ["rounds=40"]),
    ("errors", 3, []),
    ("first_call", 2, ["nonblocking_small"]),
    ("finalize", 2, []),
)
NEWER = {(5, 0): ["sessions", "shrink"], (6, 0): ["large_count"]}  # programs that need that Open MPI


SHRUNK = re.compile(r"^SHRUNK (\d+) (\d+) (\d+) (\d+)$", re.MULTILINE)
PROC_FAILED, REVOKED = 75, 77  # MPI's classes of errors


def targets(version, programs=PROGRAMS):
    """What to build for an Open MPI of that version."""
    names = {program for program, _, _ in programs} | {"counters"}
    names.update(*(newer for since, newer in NEWER.items() if version >= since))
    built = [f"test/mpi/{name}" for name in sorted(names)]
    return ["mca_coll_gpuar.so", "bench/gpuar_bench", *built]


def run_programs(programs):
    for program, ranks, operands in programs:
        words = " ".join([f"{program}, {ranks} ranks", *operands])
        yield words, lambda p=program, r=ranks, o=operands: mpi_semantics.run_program(p, r, o)


def short():
    """Before every change."""
    yield "--mca coll gpuar", lambda: selections.is_served("gpuar", {})
    yield from run_programs(SHORT)
    yield "gpuar excluded on rank 1", lambda: mpi_agreement.excluded(1)
    yield "in Open MPI's own folder, as docs/support.md says", installed
    yield "Sessions, without MPI_COMM_WORLD", sessions
    yield "a rank is killed: revoke, shrink, go on", lambda: shrunk("killed", 8)


def core():
    yield from selections.selection()
    yield from selections.not_selected()
    yield from run_programs(PROGRAMS)
    yield "MPI_T counters", mpi_semantics.mpi_t_counters
    yield "gpuar excluded on rank 1", lambda: mpi_agreement.excluded(1)
    yield "gpuar not installed on rank 2", mpi_agreement.not_installed
    algorithm = {"OMPI_MCA_coll_gpuar_algorithm": "ring"}
    yield "another algorithm on rank 0", lambda: mpi_agreement.differing(0, algorithm, "algorithm")
    yield "in Open MPI's own folder, as docs/support.md says", installed
    yield "Sessions, without MPI_COMM_WORLD", sessions
    for fault in ("killed", "revoked"):
        for size in (8, 1 << 20):
            name = f"{fault}, {size} bytes: revoke, shrink, go on"
            yield name, lambda f=fault, s=size: shrunk(f, s)
    yield "MPI_Allreduce_c beyond 2^31 elements", large_count


def installed():
    """Where `meson install` puts it. From 5.0 on mpirun hides that folder, until told."""
    folder = Path(mpi.stock_component_dir())
    file = folder / "mca_coll_gpuar.so"
    shutil.copy(BUILD / "components" / file.name, file)
    told = {"OMPI_MCA_mca_base_component_path": folder, "PMIX_MCA_mca_base_component_path": ""}
    env = told if mpi.version() >= (5, 0) else {}
    counted = {"coll": None, "coll_gpuar_counters": 1}
    try:
        result = mpi.mpirun(2, selections.PROGRAM, "stock", mca=counted, env=env)
        mpi.check_served(2, mpi.succeed(result))
        require("bad prefix" not in result.output, result.tail())
    finally:
        file.unlink()


def since(major, minor, what):
    if mpi.version() < (major, minor):
        raise Skip(f"{what} came with Open MPI {major}.{minor}")


def sessions():
    """Ranks of a session have no number in MPI_COMM_WORLD that they could ask for."""
    since(5, 0, "Sessions")
    counts = mpi_semantics.run_program("sessions", 3).output
    for rank, count in mpi.counters(counts).items():
        forms = [count[form] for form in ("blocking", "nonblocking", "persistent")]
        require(forms[0] >= 2 and forms[1] >= 2 and forms[2] == 4, f"rank {rank} counted {forms}")


def shrunk(fault, size):
    """By Open MPI's fault tolerance: the error is of MPI's class for it, and gpuar serves the rest."""
    since(5, 0, "MPIX_Comm_shrink")
    argv = [BUILD / "test" / "mpi" / "shrink", fault, size]
    mca = {"mpi_yield_when_idle": 1, "coll_gpuar_counters": 1}
    result = mpi.mpirun(4, argv, mca=mca, options=["--with-ft", "ulfm"], timeout=90)
    found = {int(rank): tuple(map(int, rest)) for rank, *rest in SHRUNK.findall(result.output)}
    left = 3 if fault == "killed" else 4
    require(sorted(found) == list(range(left)), f"{found}\n{result.tail()}")
    classes = {error for error, _, _ in found.values() if error}
    first = PROC_FAILED if fault == "killed" else REVOKED  # who learns later may see either
    require(first in classes and classes <= {PROC_FAILED, REVOKED}, f"classes {classes}")
    wrong = {rank: how for rank, how in found.items() if how[1:] != (left, 30)}
    require(not wrong, f"not {left} ranks with 30 right sums: {wrong}\n{result.tail()}")
    for rank, count in mpi.counters(result.output).items():
        forms = [count[form] for form in ("blocking", "nonblocking", "persistent")]
        require(min(forms) >= 10, f"rank {rank} counted {forms}")


def large_count():
    since(6, 0, "MPI_Allreduce_c")
    if mpi_semantics.free_memory() < 8:
        raise Skip("less than 8 GiB of memory are free")
    mpi_semantics.run_program("large_count", 2, timeout=170)


def main():
    form = {"short": short, "core": core}[sys.argv[1]]
    report = Report([])
    report.lane(form.__name__, form)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
